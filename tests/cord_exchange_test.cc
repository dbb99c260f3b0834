// SPDX-License-Identifier: MIT OR Apache-2.0
// Many cords that send each other messages at random, in every possible way: each message sent is received.
// FIBERRT_TEST_SIZE=number: messages per cord.
#include "cord_support.h"

#include <random>

using namespace support;

namespace {

constexpr int cords = 32;
const int messages = size_of_test(200);

struct Station {
    fiber_cord_t cord{};
    fiber_t clerk{}; // woken for each letter in the box
    std::atomic<int> box{0};
    int64_t received = 0;          // by this cord's thread alone
    int64_t sent = 0;              // also shared
    std::atomic<bool> open{false}; // its clerk waits
};

Station stations[cords];
std::atomic<int64_t> in_all;
std::atomic<bool> closing;

void receive(Station &station) {
    EXPECT_EQ(this_cord_handle().id, station.cord.id);
    station.received++;
    in_all++;
}

void *arrive(void *station) {
    receive(*static_cast<Station *>(station));
    return nullptr;
}

void clerk(Station &station) {
    while (!closing || station.box) {
        fiber_yield();
        for (int letters = station.box.exchange(0); letters > 0; letters--) receive(station);
    }
}

void send(Station &from, std::mt19937 &random) {
    Station &to = stations[random() % cords];
    from.sent++;
    switch (random() % 4) {
    case 0: EXPECT_EQ(fiber_post(to.cord, arrive, &to), 0); break;
    case 1: { // made there and joined here
        fiber_t fiber{};
        EXPECT_EQ(fiber_new(&fiber, On(to.cord), arrive, &to), 0);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_join(fiber, nullptr), 0);
        break;
    }
    default: to.box++; EXPECT_EQ(fiber_wakeup(to.clerk), 0);
    }
}

TEST(CordExchange, MessagesSentAreReceived) {
    in_all = 0;
    closing = false;
    std::atomic<int> senders_done{0};
    auto run_station = [&](Station &station) {
        auto keep_house = [&] {
            station.open = true;
            clerk(station);
        };
        station.cord = this_cord_handle();
        station.clerk = spawn(keep_house);
        await([&] {
            for (Station &other : stations)
                if (!other.open) return false;
            return true;
        });
        std::mt19937 random(unsigned(&station - stations));
        for (int i = 0; i < messages; i++) {
            send(station, random);
            if (random() % 8 == 0) fiber_reschedule();
        }
        senders_done++;
        await([&] { return closing.load(); });
        EXPECT_EQ(fiber_wakeup(station.clerk), 0);
        join(station.clerk);
    };
    struct Main {
        Station *station;
        decltype(run_station) *body;
        void operator()() const { (*body)(*station); }
    } mains[cords];
    fiber_cord_t started[cords];
    for (Station &station : stations) station.received = station.sent = station.open = 0;
    for (int i = 0; i < cords; i++) mains[i] = {&stations[i], &run_station};
    for (int i = 0; i < cords; i++) started[i] = start_cord(mains[i]);
    const int64_t expected = int64_t(cords) * messages;
    while (senders_done < cords || in_all < expected) fiber_sleep(FIBER_USEC(200));
    closing = true;
    for (fiber_cord_t cord : started) join_cord(cord);
    int64_t sent = 0, received = 0;
    for (const Station &station : stations) sent += station.sent, received += station.received;
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(received, expected);
}

} // namespace
