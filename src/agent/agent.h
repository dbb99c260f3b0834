// SPDX-License-Identifier: MIT OR Apache-2.0
// The agent: a thread that answers other programs' questions about the fibers of this process, at a unix socket. It has
// no cord and asks no cord, so it answers also when all cords hang.
//
//   fiberrt-top                the agent's thread
//     connects ──────────────▶ accepts, if the peer's uid is the process's effective one (clients.h)
//     "dump json\n" ─────────▶ reads fibers and cords as fiber_dump_as does (answer.h)
//     reads to the end ◀────── the text, then the end of the connection
//
// A program asks for it by fiber_agent_start or by the environment variable FIBERRT_TOP.
#pragma once

namespace fiberrt {

// Start and stop the agent, with the results of fiber_agent_start and fiber_agent_stop.
int agent_start(const char* where);
int agent_stop();

// For fork: between lock and unlock, no thread starts or stops the agent, or opens or closes a connection of it.
// agent_forked is for the child, which has no agent, and leaves the parent's file in its place.
void agent_lock();
void agent_unlock();
void agent_forked();

} // namespace fiberrt
