// SPDX-License-Identifier: MIT OR Apache-2.0
// Made from include/fiberrt.h by bindings/rust/bindings.py: change those.

use libc::{c_char, c_int, c_uint, c_void};

pub const FIBERRT_VERSION_MAJOR: u32 = 0;
pub const FIBERRT_VERSION_MINOR: u32 = 1;
pub const FIBERRT_VERSION_PATCH: u32 = 0;
pub const FIBER_CANCELLED: *mut c_void = -1isize as *mut c_void;
pub const FIBER_FOREVER: i64 = i64::MAX;
pub const FIBER_STACK_MIN: usize = 16384;
pub const FIBER_STACK_MAX: usize = 1 << 30;
pub const FIBER_STACK_DEFAULT: usize = 262144;
pub const FIBER_GUARD_REQUIRE: c_int = 0;
pub const FIBER_GUARD_PREFER: c_int = 1;
pub const FIBER_GUARD_NONE: c_int = 2;
pub const FIBER_GUARD_SIZE_DEFAULT: usize = 65536;
pub const FIBER_GUARD_SIZE_MAX: usize = 16777216;
pub const FIBER_NAME_MAX: c_int = 32;
pub const FIBER_NEW: c_int = 0;
pub const FIBER_RUNNABLE: c_int = 1;
pub const FIBER_RUNNING: c_int = 2;
pub const FIBER_WAITING: c_int = 3;
pub const FIBER_DEAD: c_int = 4;
pub const FIBER_SCOPE_SHIELD: c_uint = 1;
pub const FIBER_SCOPE_COLLECT: c_uint = 2;
pub const FIBER_SCOPE_FIRST: c_uint = 4;
pub const FIBER_SCOPE_SHIELD_CANCEL: c_uint = 8;
pub const FIBER_EVENT_MANUAL: c_uint = 1;
pub const FIBER_EVENT_SET: c_uint = 2;
pub const FIBER_CHAN_ITEM_MAX: c_int = 4096;
pub const FIBER_CASE_NONE: c_int = 0;
pub const FIBER_CASE_SEND: c_int = 1;
pub const FIBER_CASE_RECV: c_int = 2;
pub const FIBER_CASE_EVENT: c_int = 3;
pub const FIBER_CASE_SEM: c_int = 4;
pub const FIBER_CASE_TIMER: c_int = 5;
pub const FIBER_CASE_JOIN: c_int = 6;
pub const FIBER_CASE_FD: c_int = 7;
pub const FIBER_CASE_SCOPE: c_int = 8;
pub const FIBER_SELECT_MAX: c_int = 1024;
pub const FIBER_COPY_ALL: i64 = i64::MAX;
pub const FIBER_FDS_MAX: c_int = 253;
pub const FIBER_PROCESS_INHERIT: c_int = -1;
pub const FIBER_PROCESS_PIPE: c_int = -2;
pub const FIBER_PROCESS_NULL: c_int = -3;
pub const FIBER_PROCESS_STDOUT: c_int = -4;
pub const FIBER_PROCESS_FDS_MAX: c_int = 64;
pub const FIBER_POOL_WORKERS_MAX: c_int = 1024;
pub const FIBER_POOL_ANY_OF: c_int = 0;
pub const FIBER_POOL_ONE_OF: c_int = 1;
pub const FIBER_TASK_SAME_THREAD: c_uint = 1;
pub const FIBER_FEATURE_URING: u64 = 1;
pub const FIBER_FEATURE_EV: u64 = 2;
pub const FIBER_FEATURE_SIM: u64 = 4;
pub const FIBER_FORK_CONTINUE: c_int = 0;
pub const FIBER_FORK_REFUSE: c_int = 1;
pub const FIBER_TAG_KIND_MAX: c_uint = 255;
pub const FIBER_STEP_END: c_int = 0;
pub const FIBER_STEP_AGAIN: c_int = 1;
pub const FIBER_STEP_WAIT: c_int = 2;
pub const FIBER_STEP_YIELD: c_int = 3;
pub const FIBER_OP_NONE: c_int = 0;
pub const FIBER_OP_RESCHEDULE: c_int = 1;
pub const FIBER_OP_YIELD: c_int = 2;
pub const FIBER_OP_SLEEP: c_int = 3;
pub const FIBER_OP_JOIN: c_int = 4;
pub const FIBER_OP_END: c_int = 5;
pub const FIBER_OP_READ: c_int = 8;
pub const FIBER_OP_WRITE: c_int = 9;
pub const FIBER_OP_RECV: c_int = 10;
pub const FIBER_OP_SEND: c_int = 11;
pub const FIBER_OP_ACCEPT: c_int = 12;
pub const FIBER_OP_CONNECT: c_int = 13;
pub const FIBER_OP_POLL: c_int = 14;
pub const FIBER_OP_CLOSE: c_int = 15;
pub const FIBER_OP_CHAN_SEND: c_int = 16;
pub const FIBER_OP_CHAN_RECV: c_int = 17;
pub const FIBER_OP_MUTEX_LOCK: c_int = 18;
pub const FIBER_OP_MUTEX_UNLOCK: c_int = 19;
pub const FIBER_OP_SEM_WAIT: c_int = 20;
pub const FIBER_OP_EVENT_WAIT: c_int = 21;
pub const FIBER_OP_WG_WAIT: c_int = 22;
pub const FIBER_OP_RDLOCK: c_int = 23;
pub const FIBER_OP_WRLOCK: c_int = 24;
pub const FIBER_OP_CALL: c_int = 25;
pub const FIBER_OP_TIMED: c_uint = 1;
pub const FIBER_OP_REASON: c_uint = 2;
pub const FIBER_DUMP_FRAMES: c_uint = 1;
pub const FIBER_DUMP_GROUPED: c_uint = 2;
pub const FIBER_DUMP_JSON: c_uint = 4;
pub const FIBER_WAIT_TIME: c_int = 0;
pub const FIBER_WAIT_IO: c_int = 1;
pub const FIBER_WAIT_LOCK: c_int = 2;
pub const FIBER_WAIT_CHANNEL: c_int = 3;
pub const FIBER_WAIT_FIBER: c_int = 4;
pub const FIBER_WAIT_CHILDREN: c_int = 5;
pub const FIBER_WAIT_WAKEUP: c_int = 6;
pub const FIBER_WAIT_OTHER: c_int = 7;
pub const FIBER_WAIT_KINDS: c_int = 8;
pub const FIBER_BY_FUNCTION: c_int = 0;
pub const FIBER_BY_NAME: c_int = 1;
pub const FIBER_BY_SCOPE: c_int = 2;
pub const FIBER_POSIX_LATER: c_uint = 1;
pub const FIBER_POSIX_NO_LOCKS: c_uint = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_t {
    pub id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_cord_t {
    pub id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_scope_t {
    pub id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_key_t {
    pub id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_chan_t {
    pub id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct fiber_pool_t {
    pub id: u64,
}

#[repr(C)]
pub struct fiber_attr_t {
    private: [u8; 0],
}

#[repr(C)]
pub struct fiber_cord_attr_t {
    private: [u8; 0],
}

#[repr(C)]
pub struct fiber_pool_attr_t {
    private: [u8; 0],
}

#[repr(C)]
pub struct fiber_process_attr_t {
    private: [u8; 0],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_timeout_block_t {
    pub scope: fiber_scope_t,
    pub verdict: *mut c_int,
    pub once: c_int,
}

#[repr(C)]
pub struct fiber_mutex_t {
    pub opaque: [u64; 12],
}

#[repr(C)]
pub struct fiber_cond_t {
    pub opaque: [u64; 8],
}

#[repr(C)]
pub struct fiber_sem_t {
    pub opaque: [u64; 8],
}

#[repr(C)]
pub struct fiber_event_t {
    pub opaque: [u64; 8],
}

#[repr(C)]
pub struct fiber_wg_t {
    pub opaque: [u64; 8],
}

#[repr(C)]
pub struct fiber_rwlock_t {
    pub opaque: [u64; 12],
}

#[repr(C)]
pub struct fiber_once_t {
    pub opaque: [u64; 16],
}

#[repr(C)]
pub struct fiber_barrier_t {
    pub opaque: [u64; 8],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_case_t {
    pub kind: i32,
    pub fd: i32,
    pub chan: fiber_chan_t,
    pub item: *mut c_void,
    pub object: *mut c_void,
    pub number: i64,
    pub fiber: fiber_t,
    pub scope: fiber_scope_t,
    pub value: *mut c_void,
    pub result: i64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_tag_t {
    pub pointer: *mut c_void,
    pub kind: c_uint,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_hooks_t {
    pub data: *mut c_void,
    pub before_switch: Option<unsafe extern "C" fn(*mut c_void, fiber_tag_t, fiber_tag_t)>,
    pub after_switch: Option<unsafe extern "C" fn(*mut c_void, fiber_tag_t, fiber_tag_t)>,
    pub start: Option<unsafe extern "C" fn(*mut c_void, fiber_tag_t)>,
    pub exit: Option<unsafe extern "C" fn(*mut c_void, fiber_tag_t)>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void, fiber_t, fiber_tag_t)>,
    pub before_poll: Option<unsafe extern "C" fn(*mut c_void)>,
    pub after_poll: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

pub type fiber_step_t = Option<unsafe extern "C" fn(*mut c_void, i64) -> c_int>;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_op_t {
    pub code: u32,
    pub flags: u32,
    pub fiber: fiber_t,
    pub user: *mut c_void,
    pub timeout_ns: i64,
    pub result: i64,
    pub fd: i32,
    pub mode: i32,
    pub address: *mut c_void,
    pub address2: *mut c_void,
    pub length: u64,
    pub number: i64,
    pub target: u64,
    pub value: *mut c_void,
    pub function: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
    pub reserved: [u64; 1],
    pub internal: [u64; 36],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_completion_t {
    pub fiber: fiber_t,
    pub user: *mut c_void,
    pub op: *mut fiber_op_t,
    pub result: i64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_info_t {
    pub id: u64,
    pub state: i32,
    pub cancelled: u8,
    pub detached: u8,
    pub permit: u8,
    pub main_flow: u8,
    pub stack_size: u64,
    pub stack_low: u64,
    pub name: [c_char; FIBER_NAME_MAX as usize],
    pub cord: u64,
    pub stack_high: u64,
    pub parent_scope: u64,
    pub parent: u64,
    pub stack_touched: u64,
    pub still: u8,
    pub wait: [c_char; 96],
    pub wait_fd: c_int,
    pub wait_object: u64,
    pub wait_fiber: u64,
    pub wait_deadline_ns: i64,
    pub stack_used: u64,
    pub function: u64,
    pub created_at: u64,
    pub created_by: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_code_frame_t {
    pub function: [c_char; 112],
    pub file: [c_char; 136],
    pub line: i32,
    pub reserved: u32,
}

pub type fiber_frames_copy_t = Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> i64>;

pub type fiber_frames_reader_t =
    Option<unsafe extern "C" fn(fiber_tag_t, fiber_frames_copy_t, *mut fiber_code_frame_t, c_int) -> c_int>;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_stats_t {
    pub switches: u64,
    pub instant_resumes: u64,
    pub polls: u64,
    pub blocking_polls: u64,
    pub ops: u64,
    pub fibers: u64,
    pub stacks: u64,
    pub stacks_free: u64,
    pub ops_in_flight: u64,
    pub stacks_high_water: u64,
    pub stacks_trimmed: u64,
    pub stack_bytes: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_pool_stats_t {
    pub threads: u64,
    pub workers: u64,
    pub idle: u64,
    pub tasks_waiting: u64,
    pub tasks_begun: u64,
    pub closing: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_times_t {
    pub fibers: u64,
    pub turns: u64,
    pub run_ns: i64,
    pub runnable_ns: i64,
    pub wait_ns: [i64; FIBER_WAIT_KINDS as usize],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_spread_t {
    pub count: u64,
    pub p50_ns: i64,
    pub p90_ns: i64,
    pub p99_ns: i64,
    pub p999_ns: i64,
    pub most_ns: i64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_cord_times_t {
    pub elapsed_ns: i64,
    pub run_ns: i64,
    pub poll_ns: i64,
    pub sleep_ns: i64,
    pub slice: fiber_spread_t,
    pub lag: fiber_spread_t,
    pub poll: fiber_spread_t,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_times_sum_t {
    pub times: fiber_times_t,
    pub function: u64,
    pub scope: u64,
    pub name: [c_char; FIBER_NAME_MAX as usize],
    pub others: u8,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_overrun_t {
    pub fiber: fiber_t,
    pub cord: fiber_cord_t,
    pub running_ns: i64,
    pub fiber_name: [c_char; FIBER_NAME_MAX as usize],
    pub cord_name: [c_char; 16],
    pub frames: *const *mut c_void,
    pub frame_count: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_watchdog_t {
    pub limit_ns: i64,
    pub signal: c_int,
    pub report: Option<unsafe extern "C" fn(*mut c_void, *const fiber_overrun_t)>,
    pub data: *mut c_void,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_trace_t {
    pub path: *const c_char,
    pub fd: c_int,
    pub ring_events: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fiber_trace_stats_t {
    pub events: u64,
    pub dropped: u64,
    pub bytes: u64,
    pub error: c_int,
    pub running: c_int,
}

extern "C" {
    #[link_name = "fiberrt_fiber_spawn"]
    pub fn fiber_spawn(
        out: *mut fiber_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_spawn_attr"]
    pub fn fiber_spawn_attr(
        out: *mut fiber_t,
        attr: *const fiber_attr_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_new"]
    pub fn fiber_new(
        out: *mut fiber_t,
        attr: *const fiber_attr_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_start"]
    pub fn fiber_start(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_join"]
    pub fn fiber_join(fiber: fiber_t, result: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_join_timeout"]
    pub fn fiber_join_timeout(fiber: fiber_t, result: *mut *mut c_void, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_await"]
    pub fn fiber_await(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_await_timeout"]
    pub fn fiber_await_timeout(fiber: fiber_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_detach"]
    pub fn fiber_detach(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_exit"]
    pub fn fiber_exit(result: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_self"]
    pub fn fiber_self(out: *mut fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_state"]
    pub fn fiber_state(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_name"]
    pub fn fiber_name(fiber: fiber_t, buffer: *mut c_char, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_set_name"]
    pub fn fiber_set_name(fiber: fiber_t, name: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_attr_create"]
    pub fn fiber_attr_create(out: *mut *mut fiber_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_attr_destroy"]
    pub fn fiber_attr_destroy(attr: *mut fiber_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_stack_size"]
    pub fn fiber_attr_set_stack_size(attr: *mut fiber_attr_t, bytes: usize) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_stack_reserve"]
    pub fn fiber_attr_set_stack_reserve(attr: *mut fiber_attr_t, bytes: usize) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_guard"]
    pub fn fiber_attr_set_guard(attr: *mut fiber_attr_t, guard: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_guard_size"]
    pub fn fiber_attr_set_guard_size(attr: *mut fiber_attr_t, bytes: usize) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_name"]
    pub fn fiber_attr_set_name(attr: *mut fiber_attr_t, name: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_detached"]
    pub fn fiber_attr_set_detached(attr: *mut fiber_attr_t, detached: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_daemon"]
    pub fn fiber_attr_set_daemon(attr: *mut fiber_attr_t, daemon: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_cord"]
    pub fn fiber_attr_set_cord(attr: *mut fiber_attr_t, cord: fiber_cord_t) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_free_arg"]
    pub fn fiber_attr_set_free_arg(
        attr: *mut fiber_attr_t,
        free_arg: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_attr_set_pool"]
    pub fn fiber_attr_set_pool(attr: *mut fiber_attr_t, pool: fiber_pool_t) -> c_int;
    #[link_name = "fiberrt_fiber_yield"]
    pub fn fiber_yield() -> c_int;
    #[link_name = "fiberrt_fiber_yield_timeout"]
    pub fn fiber_yield_timeout(timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_yield_value"]
    pub fn fiber_yield_value(value: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_wakeup"]
    pub fn fiber_wakeup(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_wakeup_value"]
    pub fn fiber_wakeup_value(fiber: fiber_t, value: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_reschedule"]
    pub fn fiber_reschedule() -> c_int;
    #[link_name = "fiberrt_fiber_reschedule_if_due"]
    pub fn fiber_reschedule_if_due() -> c_int;
    #[link_name = "fiberrt_fiber_transfer"]
    pub fn fiber_transfer(to: fiber_t, r#in: *mut c_void, out: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_transferrer"]
    pub fn fiber_transferrer(from: *mut fiber_t, value: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_sleep"]
    pub fn fiber_sleep(ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_every"]
    pub fn fiber_every(tick_ns: *mut i64, period_ns: i64) -> i64;
    #[link_name = "fiberrt_fiber_noswitch_enter"]
    pub fn fiber_noswitch_enter() -> c_int;
    #[link_name = "fiberrt_fiber_noswitch_leave"]
    pub fn fiber_noswitch_leave() -> c_int;
    #[link_name = "fiberrt_fiber_here"]
    pub fn fiber_here() -> c_int;
    #[link_name = "fiberrt_fiber_cancel"]
    pub fn fiber_cancel(fiber: fiber_t, reason: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_cancelled"]
    pub fn fiber_cancelled(reason: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_interrupt"]
    pub fn fiber_interrupt(fiber: fiber_t, value: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_interrupted"]
    pub fn fiber_interrupted(value: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_scope_open"]
    pub fn fiber_scope_open(out: *mut fiber_scope_t, timeout_ns: i64, flags: c_uint) -> c_int;
    #[link_name = "fiberrt_fiber_scope_close"]
    pub fn fiber_scope_close(scope: fiber_scope_t, failure: *mut i64) -> c_int;
    #[link_name = "fiberrt_fiber_timeout_block_open"]
    pub fn fiber_timeout_block_open(timeout_ns: i64, verdict: *mut c_int) -> fiber_timeout_block_t;
    #[link_name = "fiberrt_fiber_timeout_block_close"]
    pub fn fiber_timeout_block_close(block: *mut fiber_timeout_block_t);
    #[link_name = "fiberrt_fiber_scope_cancel"]
    pub fn fiber_scope_cancel(scope: fiber_scope_t, reason: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_scope_set_timeout"]
    pub fn fiber_scope_set_timeout(scope: fiber_scope_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_scope_spawn"]
    pub fn fiber_scope_spawn(
        scope: fiber_scope_t,
        out: *mut fiber_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_scope_spawn_attr"]
    pub fn fiber_scope_spawn_attr(
        scope: fiber_scope_t,
        out: *mut fiber_t,
        attr: *const fiber_attr_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_scope_next"]
    pub fn fiber_scope_next(scope: fiber_scope_t, child: *mut fiber_t, result: *mut i64) -> c_int;
    #[link_name = "fiberrt_fiber_mutex_lock"]
    pub fn fiber_mutex_lock(mutex: *mut fiber_mutex_t) -> c_int;
    #[link_name = "fiberrt_fiber_mutex_lock_timeout"]
    pub fn fiber_mutex_lock_timeout(mutex: *mut fiber_mutex_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_mutex_trylock"]
    pub fn fiber_mutex_trylock(mutex: *mut fiber_mutex_t) -> c_int;
    #[link_name = "fiberrt_fiber_mutex_unlock"]
    pub fn fiber_mutex_unlock(mutex: *mut fiber_mutex_t) -> c_int;
    #[link_name = "fiberrt_fiber_mutex_destroy"]
    pub fn fiber_mutex_destroy(mutex: *mut fiber_mutex_t) -> c_int;
    #[link_name = "fiberrt_fiber_cond_wait"]
    pub fn fiber_cond_wait(cond: *mut fiber_cond_t, mutex: *mut fiber_mutex_t) -> c_int;
    #[link_name = "fiberrt_fiber_cond_wait_timeout"]
    pub fn fiber_cond_wait_timeout(cond: *mut fiber_cond_t, mutex: *mut fiber_mutex_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_cond_signal"]
    pub fn fiber_cond_signal(cond: *mut fiber_cond_t) -> c_int;
    #[link_name = "fiberrt_fiber_cond_broadcast"]
    pub fn fiber_cond_broadcast(cond: *mut fiber_cond_t) -> c_int;
    #[link_name = "fiberrt_fiber_cond_destroy"]
    pub fn fiber_cond_destroy(cond: *mut fiber_cond_t) -> c_int;
    #[link_name = "fiberrt_fiber_sem_init"]
    pub fn fiber_sem_init(sem: *mut fiber_sem_t, permits: i64) -> c_int;
    #[link_name = "fiberrt_fiber_sem_wait"]
    pub fn fiber_sem_wait(sem: *mut fiber_sem_t, n: i64) -> c_int;
    #[link_name = "fiberrt_fiber_sem_wait_timeout"]
    pub fn fiber_sem_wait_timeout(sem: *mut fiber_sem_t, n: i64, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_sem_trywait"]
    pub fn fiber_sem_trywait(sem: *mut fiber_sem_t, n: i64) -> c_int;
    #[link_name = "fiberrt_fiber_sem_post"]
    pub fn fiber_sem_post(sem: *mut fiber_sem_t, n: i64) -> c_int;
    #[link_name = "fiberrt_fiber_sem_value"]
    pub fn fiber_sem_value(sem: *mut fiber_sem_t) -> i64;
    #[link_name = "fiberrt_fiber_sem_destroy"]
    pub fn fiber_sem_destroy(sem: *mut fiber_sem_t) -> c_int;
    #[link_name = "fiberrt_fiber_event_init"]
    pub fn fiber_event_init(event: *mut fiber_event_t, flags: c_uint) -> c_int;
    #[link_name = "fiberrt_fiber_event_wait"]
    pub fn fiber_event_wait(event: *mut fiber_event_t) -> c_int;
    #[link_name = "fiberrt_fiber_event_wait_timeout"]
    pub fn fiber_event_wait_timeout(event: *mut fiber_event_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_event_set"]
    pub fn fiber_event_set(event: *mut fiber_event_t) -> c_int;
    #[link_name = "fiberrt_fiber_event_reset"]
    pub fn fiber_event_reset(event: *mut fiber_event_t) -> c_int;
    #[link_name = "fiberrt_fiber_event_is_set"]
    pub fn fiber_event_is_set(event: *mut fiber_event_t) -> c_int;
    #[link_name = "fiberrt_fiber_event_destroy"]
    pub fn fiber_event_destroy(event: *mut fiber_event_t) -> c_int;
    #[link_name = "fiberrt_fiber_wg_add"]
    pub fn fiber_wg_add(group: *mut fiber_wg_t, n: i64) -> c_int;
    #[link_name = "fiberrt_fiber_wg_done"]
    pub fn fiber_wg_done(group: *mut fiber_wg_t) -> c_int;
    #[link_name = "fiberrt_fiber_wg_wait"]
    pub fn fiber_wg_wait(group: *mut fiber_wg_t) -> c_int;
    #[link_name = "fiberrt_fiber_wg_wait_timeout"]
    pub fn fiber_wg_wait_timeout(group: *mut fiber_wg_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_wg_destroy"]
    pub fn fiber_wg_destroy(group: *mut fiber_wg_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_rdlock"]
    pub fn fiber_rwlock_rdlock(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_wrlock"]
    pub fn fiber_rwlock_wrlock(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_rdlock_timeout"]
    pub fn fiber_rwlock_rdlock_timeout(rwlock: *mut fiber_rwlock_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_wrlock_timeout"]
    pub fn fiber_rwlock_wrlock_timeout(rwlock: *mut fiber_rwlock_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_tryrdlock"]
    pub fn fiber_rwlock_tryrdlock(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_trywrlock"]
    pub fn fiber_rwlock_trywrlock(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_unlock"]
    pub fn fiber_rwlock_unlock(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_rwlock_destroy"]
    pub fn fiber_rwlock_destroy(rwlock: *mut fiber_rwlock_t) -> c_int;
    #[link_name = "fiberrt_fiber_once"]
    pub fn fiber_once(
        once: *mut fiber_once_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_barrier_init"]
    pub fn fiber_barrier_init(barrier: *mut fiber_barrier_t, count: i64) -> c_int;
    #[link_name = "fiberrt_fiber_barrier_wait"]
    pub fn fiber_barrier_wait(barrier: *mut fiber_barrier_t) -> c_int;
    #[link_name = "fiberrt_fiber_barrier_wait_timeout"]
    pub fn fiber_barrier_wait_timeout(barrier: *mut fiber_barrier_t, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_barrier_destroy"]
    pub fn fiber_barrier_destroy(barrier: *mut fiber_barrier_t) -> c_int;
    #[link_name = "fiberrt_fiber_chan_create"]
    pub fn fiber_chan_create(out: *mut fiber_chan_t, item_size: usize, capacity: usize) -> c_int;
    #[link_name = "fiberrt_fiber_chan_send"]
    pub fn fiber_chan_send(chan: fiber_chan_t, item: *const c_void) -> c_int;
    #[link_name = "fiberrt_fiber_chan_recv"]
    pub fn fiber_chan_recv(chan: fiber_chan_t, item: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_chan_send_timeout"]
    pub fn fiber_chan_send_timeout(chan: fiber_chan_t, item: *const c_void, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_chan_recv_timeout"]
    pub fn fiber_chan_recv_timeout(chan: fiber_chan_t, item: *mut c_void, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_chan_try_send"]
    pub fn fiber_chan_try_send(chan: fiber_chan_t, item: *const c_void) -> c_int;
    #[link_name = "fiberrt_fiber_chan_try_recv"]
    pub fn fiber_chan_try_recv(chan: fiber_chan_t, item: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_chan_close"]
    pub fn fiber_chan_close(chan: fiber_chan_t) -> c_int;
    #[link_name = "fiberrt_fiber_chan_destroy"]
    pub fn fiber_chan_destroy(chan: fiber_chan_t) -> c_int;
    #[link_name = "fiberrt_fiber_chan_count"]
    pub fn fiber_chan_count(chan: fiber_chan_t) -> i64;
    #[link_name = "fiberrt_fiber_chan_capacity"]
    pub fn fiber_chan_capacity(chan: fiber_chan_t) -> i64;
    #[link_name = "fiberrt_fiber_chan_is_closed"]
    pub fn fiber_chan_is_closed(chan: fiber_chan_t) -> c_int;
    #[link_name = "fiberrt_fiber_select"]
    pub fn fiber_select(cases: *mut fiber_case_t, count: c_int, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_read"]
    pub fn fiber_read(fd: c_int, buffer: *mut c_void, count: usize) -> i64;
    #[link_name = "fiberrt_fiber_write"]
    pub fn fiber_write(fd: c_int, buffer: *const c_void, count: usize) -> i64;
    #[link_name = "fiberrt_fiber_readv"]
    pub fn fiber_readv(fd: c_int, iov: *const libc::iovec, count: c_int) -> i64;
    #[link_name = "fiberrt_fiber_writev"]
    pub fn fiber_writev(fd: c_int, iov: *const libc::iovec, count: c_int) -> i64;
    #[link_name = "fiberrt_fiber_pread"]
    pub fn fiber_pread(fd: c_int, buffer: *mut c_void, count: usize, offset: i64) -> i64;
    #[link_name = "fiberrt_fiber_pwrite"]
    pub fn fiber_pwrite(fd: c_int, buffer: *const c_void, count: usize, offset: i64) -> i64;
    #[link_name = "fiberrt_fiber_recv"]
    pub fn fiber_recv(fd: c_int, buffer: *mut c_void, count: usize, flags: c_int) -> i64;
    #[link_name = "fiberrt_fiber_send"]
    pub fn fiber_send(fd: c_int, buffer: *const c_void, count: usize, flags: c_int) -> i64;
    #[link_name = "fiberrt_fiber_recvmsg"]
    pub fn fiber_recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> i64;
    #[link_name = "fiberrt_fiber_sendmsg"]
    pub fn fiber_sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> i64;
    #[link_name = "fiberrt_fiber_recvfrom"]
    pub fn fiber_recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        count: usize,
        flags: c_int,
        address: *mut libc::sockaddr,
        length: *mut libc::socklen_t,
    ) -> i64;
    #[link_name = "fiberrt_fiber_sendto"]
    pub fn fiber_sendto(
        fd: c_int,
        buffer: *const c_void,
        count: usize,
        flags: c_int,
        address: *const libc::sockaddr,
        length: libc::socklen_t,
    ) -> i64;
    #[link_name = "fiberrt_fiber_accept"]
    pub fn fiber_accept(fd: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int;
    #[link_name = "fiberrt_fiber_accept4"]
    pub fn fiber_accept4(fd: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t, flags: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_connect"]
    pub fn fiber_connect(fd: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int;
    #[link_name = "fiberrt_fiber_open"]
    pub fn fiber_open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    #[link_name = "fiberrt_fiber_close"]
    pub fn fiber_close(fd: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_statx"]
    pub fn fiber_statx(dirfd: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut libc::statx) -> c_int;
    #[link_name = "fiberrt_fiber_fsync"]
    pub fn fiber_fsync(fd: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_fdatasync"]
    pub fn fiber_fdatasync(fd: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_poll_fd"]
    pub fn fiber_poll_fd(fd: c_int, events: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_openat2"]
    pub fn fiber_openat2(dirfd: c_int, path: *const c_char, how: *mut libc::open_how, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_renameat2"]
    pub fn fiber_renameat2(
        old_dirfd: c_int,
        old_path: *const c_char,
        new_dirfd: c_int,
        new_path: *const c_char,
        flags: c_uint,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_rename"]
    pub fn fiber_rename(old_path: *const c_char, new_path: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_unlinkat"]
    pub fn fiber_unlinkat(dirfd: c_int, path: *const c_char, flags: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_unlink"]
    pub fn fiber_unlink(path: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_rmdir"]
    pub fn fiber_rmdir(path: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_mkdirat"]
    pub fn fiber_mkdirat(dirfd: c_int, path: *const c_char, mode: libc::mode_t) -> c_int;
    #[link_name = "fiberrt_fiber_mkdir"]
    pub fn fiber_mkdir(path: *const c_char, mode: libc::mode_t) -> c_int;
    #[link_name = "fiberrt_fiber_getdents64"]
    pub fn fiber_getdents64(fd: c_int, buffer: *mut c_void, size: usize) -> i64;
    #[link_name = "fiberrt_fiber_splice"]
    pub fn fiber_splice(
        fd_in: c_int,
        offset_in: *mut i64,
        fd_out: c_int,
        offset_out: *mut i64,
        count: usize,
        flags: c_uint,
    ) -> i64;
    #[link_name = "fiberrt_fiber_copy"]
    pub fn fiber_copy(fd_in: c_int, fd_out: c_int, limit: i64, written: *mut i64, lost: *mut i64) -> i64;
    #[link_name = "fiberrt_fiber_send_fds"]
    pub fn fiber_send_fds(fd: c_int, buffer: *const c_void, count: usize, fds: *const c_int, fd_count: usize) -> i64;
    #[link_name = "fiberrt_fiber_recv_fds"]
    pub fn fiber_recv_fds(
        fd: c_int,
        buffer: *mut c_void,
        count: usize,
        fds: *mut c_int,
        fd_count: *mut usize,
        flags: *mut c_int,
    ) -> i64;
    #[link_name = "fiberrt_fiber_offload"]
    pub fn fiber_offload(
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
        arg: *mut c_void,
        result: *mut i64,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_offload_detached"]
    pub fn fiber_offload_detached(
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
        arg: *mut c_void,
        free_arg: Option<unsafe extern "C" fn(*mut c_void)>,
        result: *mut i64,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_offload_set_limit"]
    pub fn fiber_offload_set_limit(threads: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_getaddrinfo"]
    pub fn fiber_getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const libc::addrinfo,
        out: *mut *mut libc::addrinfo,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_dial"]
    pub fn fiber_dial(address: *const c_char, flags: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_create"]
    pub fn fiber_process_attr_create(out: *mut *mut fiber_process_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_destroy"]
    pub fn fiber_process_attr_destroy(attr: *mut fiber_process_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_stream"]
    pub fn fiber_process_attr_set_stream(attr: *mut fiber_process_attr_t, stream: c_int, source: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_add_fd"]
    pub fn fiber_process_attr_add_fd(attr: *mut fiber_process_attr_t, fd: c_int, source: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_session"]
    pub fn fiber_process_attr_set_session(attr: *mut fiber_process_attr_t, session: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_environment"]
    pub fn fiber_process_attr_set_environment(
        attr: *mut fiber_process_attr_t,
        environment: *const *mut c_char,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_directory"]
    pub fn fiber_process_attr_set_directory(attr: *mut fiber_process_attr_t, path: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_group"]
    pub fn fiber_process_attr_set_group(attr: *mut fiber_process_attr_t, group: libc::pid_t) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_mask"]
    pub fn fiber_process_attr_set_mask(attr: *mut fiber_process_attr_t, mask: *const libc::sigset_t) -> c_int;
    #[link_name = "fiberrt_fiber_process_attr_set_default_signals"]
    pub fn fiber_process_attr_set_default_signals(
        attr: *mut fiber_process_attr_t,
        signals: *const libc::sigset_t,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_process_spawn"]
    pub fn fiber_process_spawn(
        pid: *mut libc::pid_t,
        pipes: *mut c_int,
        attr: *const fiber_process_attr_t,
        file: *const c_char,
        argv: *const *mut c_char,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_process_wait"]
    pub fn fiber_process_wait(pid: libc::pid_t, status: *mut c_int, grace_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_waitpid"]
    pub fn fiber_waitpid(pid: libc::pid_t, status: *mut c_int, options: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_sigwait"]
    pub fn fiber_sigwait(set: *const libc::sigset_t, info: *mut libc::signalfd_siginfo) -> c_int;
    #[link_name = "fiberrt_fiber_cord_start"]
    pub fn fiber_cord_start(
        out: *mut fiber_cord_t,
        attr: *const fiber_cord_attr_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_cord_join"]
    pub fn fiber_cord_join(cord: fiber_cord_t, result: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_cord_join_timeout"]
    pub fn fiber_cord_join_timeout(cord: fiber_cord_t, result: *mut *mut c_void, timeout_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_post"]
    pub fn fiber_post(
        cord: fiber_cord_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_cord_shutdown"]
    pub fn fiber_cord_shutdown(cord: fiber_cord_t, grace_ns: i64, deadline_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_cord_self"]
    pub fn fiber_cord_self(out: *mut fiber_cord_t) -> c_int;
    #[link_name = "fiberrt_fiber_cord_name"]
    pub fn fiber_cord_name(cord: fiber_cord_t, buffer: *mut c_char, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_cord_attr_create"]
    pub fn fiber_cord_attr_create(out: *mut *mut fiber_cord_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_cord_attr_destroy"]
    pub fn fiber_cord_attr_destroy(attr: *mut fiber_cord_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_cord_attr_set_name"]
    pub fn fiber_cord_attr_set_name(attr: *mut fiber_cord_attr_t, name: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_cord_attr_set_affinity"]
    pub fn fiber_cord_attr_set_affinity(attr: *mut fiber_cord_attr_t, cpus: *const c_int, count: usize) -> c_int;
    #[link_name = "fiberrt_fiber_pool_create"]
    pub fn fiber_pool_create(out: *mut fiber_pool_t, attr: *const fiber_pool_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_submit"]
    pub fn fiber_pool_submit(
        pool: fiber_pool_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_pool_submit_flags"]
    pub fn fiber_pool_submit_flags(
        pool: fiber_pool_t,
        r#fn: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        arg: *mut c_void,
        flags: c_uint,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_pool_close"]
    pub fn fiber_pool_close(pool: fiber_pool_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_bind"]
    pub fn fiber_pool_bind(pool: fiber_pool_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_unbind"]
    pub fn fiber_pool_unbind(pool: fiber_pool_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_create"]
    pub fn fiber_pool_attr_create(out: *mut *mut fiber_pool_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_destroy"]
    pub fn fiber_pool_attr_destroy(attr: *mut fiber_pool_attr_t) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_workers"]
    pub fn fiber_pool_attr_set_workers(attr: *mut fiber_pool_attr_t, count: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_stack_size"]
    pub fn fiber_pool_attr_set_stack_size(attr: *mut fiber_pool_attr_t, bytes: usize) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_guard_size"]
    pub fn fiber_pool_attr_set_guard_size(attr: *mut fiber_pool_attr_t, bytes: usize) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_affinity"]
    pub fn fiber_pool_attr_set_affinity(
        attr: *mut fiber_pool_attr_t,
        cpus: *const c_int,
        count: usize,
        policy: c_int,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_spin"]
    pub fn fiber_pool_attr_set_spin(attr: *mut fiber_pool_attr_t, spin_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_init"]
    pub fn fiber_pool_attr_set_init(
        attr: *mut fiber_pool_attr_t,
        init: Option<unsafe extern "C" fn(*mut c_void, c_int)>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_name"]
    pub fn fiber_pool_attr_set_name(attr: *mut fiber_pool_attr_t, name: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_task_limit"]
    pub fn fiber_pool_attr_set_task_limit(attr: *mut fiber_pool_attr_t, count: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_pool_attr_set_bound_help"]
    pub fn fiber_pool_attr_set_bound_help(attr: *mut fiber_pool_attr_t, help: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_key_create"]
    pub fn fiber_key_create(out: *mut fiber_key_t, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    #[link_name = "fiberrt_fiber_key_create_ambient"]
    pub fn fiber_key_create_ambient(
        out: *mut fiber_key_t,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        apply: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_key_delete"]
    pub fn fiber_key_delete(key: fiber_key_t) -> c_int;
    #[link_name = "fiberrt_fiber_key_get"]
    pub fn fiber_key_get(key: fiber_key_t) -> *mut c_void;
    #[link_name = "fiberrt_fiber_key_set"]
    pub fn fiber_key_set(key: fiber_key_t, value: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_cord_fd"]
    pub fn fiber_cord_fd() -> c_int;
    #[link_name = "fiberrt_fiber_cord_run"]
    pub fn fiber_cord_run(duration_ns: i64) -> c_int;
    #[link_name = "fiberrt_fiber_cord_next_deadline"]
    pub fn fiber_cord_next_deadline(out: *mut i64) -> c_int;
    #[link_name = "fiberrt_fiber_version"]
    pub fn fiber_version() -> c_int;
    #[link_name = "fiberrt_fiber_strerror"]
    pub fn fiber_strerror(error: c_int) -> *const c_char;
    #[link_name = "fiberrt_fiber_now"]
    pub fn fiber_now() -> i64;
    #[link_name = "fiberrt_fiber_features"]
    pub fn fiber_features() -> u64;
    #[link_name = "fiberrt_fiber_backend_name"]
    pub fn fiber_backend_name() -> *const c_char;
    #[link_name = "fiberrt_fiber_sim_pick"]
    pub fn fiber_sim_pick(count: u32, one_in: u32) -> i64;
    #[link_name = "fiberrt_fiber_set_fork_policy"]
    pub fn fiber_set_fork_policy(policy: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_hooks_set"]
    pub fn fiber_hooks_set(hooks: *const fiber_hooks_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_tag_set"]
    pub fn fiber_tag_set(fiber: fiber_t, tag: fiber_tag_t) -> c_int;
    #[link_name = "fiberrt_fiber_tag_get"]
    pub fn fiber_tag_get(fiber: fiber_t, out: *mut fiber_tag_t) -> c_int;
    #[link_name = "fiberrt_fiber_hosted_new"]
    pub fn fiber_hosted_new(
        out: *mut fiber_t,
        attr: *const fiber_attr_t,
        step: fiber_step_t,
        user: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_hosted_user"]
    pub fn fiber_hosted_user(fiber: fiber_t, user: *mut *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_hosted_end"]
    pub fn fiber_hosted_end(fiber: fiber_t, result: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_hosted_enter"]
    pub fn fiber_hosted_enter(fiber: fiber_t) -> c_int;
    #[link_name = "fiberrt_fiber_hosted_leave"]
    pub fn fiber_hosted_leave() -> c_int;
    #[link_name = "fiberrt_fiber_ops_create"]
    pub fn fiber_ops_create(out: *mut *mut fiber_op_t, count: usize) -> c_int;
    #[link_name = "fiberrt_fiber_ops_destroy"]
    pub fn fiber_ops_destroy(ops: *mut fiber_op_t) -> c_int;
    #[link_name = "fiberrt_fiber_op_start"]
    pub fn fiber_op_start(op: *mut fiber_op_t) -> c_int;
    #[link_name = "fiberrt_fiber_exchange"]
    pub fn fiber_exchange(
        ops: *const *mut fiber_op_t,
        op_count: c_int,
        out: *mut fiber_completion_t,
        most: c_int,
        timeout_ns: i64,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_info"]
    pub fn fiber_info(fiber: fiber_t, out: *mut fiber_info_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_backtrace"]
    pub fn fiber_backtrace(fiber: fiber_t, frames: *mut *mut c_void, max: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_frames_reader_set"]
    pub fn fiber_frames_reader_set(kind: c_uint, language: *const c_char, read: fiber_frames_reader_t) -> c_int;
    #[link_name = "fiberrt_fiber_code_frames"]
    pub fn fiber_code_frames(fiber: fiber_t, frames: *mut fiber_code_frame_t, max: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_each"]
    pub fn fiber_each(visit: Option<unsafe extern "C" fn(fiber_t, *mut c_void) -> c_int>, arg: *mut c_void) -> c_int;
    #[link_name = "fiberrt_fiber_stats"]
    pub fn fiber_stats(out: *mut fiber_stats_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_cord_stats"]
    pub fn fiber_cord_stats(cord: fiber_cord_t, out: *mut fiber_stats_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_pool_stats"]
    pub fn fiber_pool_stats(pool: fiber_pool_t, out: *mut fiber_pool_stats_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_dump"]
    pub fn fiber_dump(fd: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_dump_as"]
    pub fn fiber_dump_as(fd: c_int, flags: c_uint) -> c_int;
    #[link_name = "fiberrt_fiber_metrics_write"]
    pub fn fiber_metrics_write(fd: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_accounting_start"]
    pub fn fiber_accounting_start() -> c_int;
    #[link_name = "fiberrt_fiber_accounting_stop"]
    pub fn fiber_accounting_stop() -> c_int;
    #[link_name = "fiberrt_fiber_times"]
    pub fn fiber_times(fiber: fiber_t, out: *mut fiber_times_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_cord_times"]
    pub fn fiber_cord_times(cord: fiber_cord_t, out: *mut fiber_cord_times_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_times_each"]
    pub fn fiber_times_each(
        by: c_int,
        visit: Option<unsafe extern "C" fn(*const fiber_times_sum_t, *mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;
    #[link_name = "fiberrt_fiber_report_overflows"]
    pub fn fiber_report_overflows(on: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_record_creation"]
    pub fn fiber_record_creation(on: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_watchdog_start"]
    pub fn fiber_watchdog_start(options: *const fiber_watchdog_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_watchdog_stop"]
    pub fn fiber_watchdog_stop() -> c_int;
    #[link_name = "fiberrt_fiber_agent_start"]
    pub fn fiber_agent_start(path: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_agent_stop"]
    pub fn fiber_agent_stop() -> c_int;
    #[link_name = "fiberrt_fiber_dump_on_signal"]
    pub fn fiber_dump_on_signal(signal: c_int, fd: c_int, flags: c_uint) -> c_int;
    #[link_name = "fiberrt_fiber_dump_running_signal"]
    pub fn fiber_dump_running_signal(signal: c_int) -> c_int;
    #[link_name = "fiberrt_fiber_trace_start"]
    pub fn fiber_trace_start(options: *const fiber_trace_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_trace_stop"]
    pub fn fiber_trace_stop() -> c_int;
    #[link_name = "fiberrt_fiber_trace_stats"]
    pub fn fiber_trace_stats(out: *mut fiber_trace_stats_t, size: usize) -> c_int;
    #[link_name = "fiberrt_fiber_trace_begin"]
    pub fn fiber_trace_begin(name: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_trace_end"]
    pub fn fiber_trace_end() -> c_int;
    #[link_name = "fiberrt_fiber_trace_counter"]
    pub fn fiber_trace_counter(name: *const c_char, value: i64) -> c_int;
    #[link_name = "fiberrt_fiber_posix_adopt"]
    pub fn fiber_posix_adopt(library: *const c_char, flags: c_uint) -> c_int;
    #[link_name = "fiberrt_fiber_posix_release"]
    pub fn fiber_posix_release(library: *const c_char) -> c_int;
    #[link_name = "fiberrt_fiber_posix_each"]
    pub fn fiber_posix_each(
        visit: Option<unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;
}
