// SPDX-License-Identifier: MIT OR Apache-2.0
// Six cords, and plain threads without a cord, make the library's calls on each other's fibers and cords at random:
// every result is a documented one, and at the end nothing is lost, left over or done twice.
//
// A round begins with fresh cords and ends when every fiber and cord of it is accounted for; there are as many rounds
// as fit in the time, and as it takes for each call to succeed, so that beginnings and ends meet everything too. The
// seed of the first is printed; FIBERRT_STRESS_SEED=number begins with that one. (The threads' own order is not
// repeated.) FIBERRT_TEST_SIZE=number: milliseconds.
#include "io_support.h"
#include "cord_support.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

using namespace support;

namespace {

const int milliseconds = size_of_test(3000);
constexpr int houses = 6; // cords that live as long as the round
constexpr int drivers_each = 3;
constexpr int plain_threads = 2;
constexpr int turns = FIBERRT_TEST_TSAN ? 60 : 120; // of each driver in a round
constexpr int most_guests = 24;                     // cords that begin and end meanwhile
constexpr int most_fibers = houses * drivers_each * turns * 4;

// --- The state of the fibers and the cords ---------------------------------------------------------------------------

struct Place { // a cord
    std::atomic<uint64_t> id{0};
    std::atomic<uint64_t> main{0};
    std::atomic<int> joins{0}; // that reported its end
    bool guest = false;
    fiber_cord_t cord() const { return {id}; }
};

enum class Way { returns, gives_way, sleeps, yields, acts, streams, reads };

struct Round;
struct Streams;

struct Ward {                    // a fiber
    std::atomic<uint64_t> id{0}; // 0: it was posted, or is not made yet
    Round *round = nullptr;
    Place *place = nullptr;
    Way way = Way::returns;
    bool detached = false; // from the beginning
    bool daemon = false;
    unsigned seed = 0;
    Streams *streams = nullptr; // that it reads
    std::atomic<bool> made{false};
    std::atomic<bool> called{false};    // a thread or fiber has woken or started it, with result 0
    std::atomic<bool> cancelled{false}; // a thread or fiber has tried to cancel it
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
    std::atomic<int> joins{0}; // that reported its end
    std::atomic<int> detaches{0};
    fiber_t fiber() const { return {id}; }
};

struct Round {
    unsigned seed = 0;
    bool io = false;
    Place place[houses + most_guests];
    std::atomic<int> guests{0};
    std::unique_ptr<Ward[]> ward{new Ward[most_fibers]};
    std::atomic<int> wards{0};
    std::atomic<uint64_t> driver[houses * drivers_each] = {};
    std::atomic<int> acting{0};       // drivers and threads that have not done yet
    std::atomic<int> in_an_act{0};    // other fibers that are in the middle of something
    std::atomic<bool> closing{false}; // no new act begins
    std::atomic<bool> leaving{false}; // the houses' main flows return

    Ward *new_ward() {
        if (closing || wards >= most_fibers - 64) return nullptr;
        const int number = wards++;
        return number < most_fibers ? &ward[number] : nullptr;
    }
    int ward_count() const { return std::min(wards.load(), most_fibers); }
};

// --- Calls and their results
// ---------------------------------------------------------------------------------------------

enum Call {
    spawned,
    made_there,
    posted,
    started,
    woken,
    cancelled,
    interrupted,
    detached,
    joined,
    joined_in_time,
    told,
    cord_begun,
    cord_joined,
    cord_shut_down,
    yielded,
    slept,
    received,
    written,
    call_count
};
constexpr const char *call_name[call_count] = {"fiber_spawn",
                                               "fiber_new",
                                               "fiber_post",
                                               "fiber_start",
                                               "fiber_wakeup",
                                               "fiber_cancel",
                                               "fiber_interrupt",
                                               "fiber_detach",
                                               "fiber_join",
                                               "fiber_join_timeout",
                                               "fiber_info",
                                               "fiber_cord_start",
                                               "fiber_cord_join_timeout",
                                               "fiber_cord_shutdown",
                                               "fiber_yield_timeout",
                                               "fiber_sleep",
                                               "fiber_read",
                                               "fiber_write"};
std::atomic<int64_t> succeeded[call_count];

// Counts a call that succeeded, and finds fault with a result that its documentation does not name.
int64_t check(Call call, int64_t result, std::initializer_list<int> errors) {
    if (result >= 0) {
        succeeded[call]++;
        return result;
    }
    for (int error : errors)
        if (result == error) return result;
    ADD_FAILURE() << call_name[call] << " returned " << fiber_strerror(int(result));
    return result;
}

void *begin(void *ward);

// --- The actors ------------------------------------------------------------------------------------------------------

// A fiber, or a thread without a cord, which can do less. Actors that others may cancel see -ECANCELED.
class Actor {
public:
    Actor(Round &round, unsigned seed, bool fiber, bool cancellable)
        : round_(round), random_(seed), fiber_(fiber), cancellable_(cancellable) {}

    void act() {
        if (fiber_ && chance(12)) {
            fiber_scope_t scope{};
            EXPECT_EQ(fiber_scope_open(&scope, duration(), 0), 0);
            scoped_ = true;
            do_one();
            scoped_ = false;
            const int verdict = fiber_scope_close(scope, nullptr);
            EXPECT_TRUE(verdict == 0 || verdict == -ETIMEDOUT) << verdict;
        } else {
            do_one();
        }
    }

    unsigned below(unsigned limit) { return unsigned(random_() % limit); }
    bool chance(unsigned one_in) { return below(one_in) == 0; }
    int64_t duration() {
        const int64_t durations[] = {0, FIBER_USEC(1), FIBER_USEC(30), FIBER_USEC(300), FIBER_MSEC(3)};
        return durations[below(5)];
    }

    // Makes a fiber on a cord, ready to be woken; null: that cord ends, or there are enough.
    Ward *make(Place &place, Way way, Streams *streams = nullptr) {
        if (!place.id) return nullptr;
        Ward *ward = prepare(place, way, streams);
        if (!ward) return nullptr;
        fiber_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        ward->detached = chance(5);
        // Their stacks are lost at the end, and with them notes that they were about to make, such as of an end that
        // one has just joined.
        ward->daemon = place.guest && way != Way::streams && way != Way::acts && chance(3);
        fiber_attr_set_detached(attr, ward->detached);
        fiber_attr_set_daemon(attr, ward->daemon);
        fiber_t fiber{};
        int error = fiber_attr_set_cord(attr, place.cord());
        if (!error) error = fiber_new(&fiber, attr, begin, ward);
        EXPECT_TRUE(!error || place.guest) << fiber_strerror(error);
        check(made_there, error, {-ESRCH, -EPIPE});
        fiber_attr_destroy(attr);
        if (error) return nullptr;
        ward->id = fiber.id;
        ward->made = true;
        return ward;
    }

    void wake(Ward &ward) {
        if (check(woken, fiber_wakeup(ward.fiber()), {-ESRCH}) == 0) ward.called = true;
    }

private:
    Ward *prepare(Place &place, Way way, Streams *streams) {
        Ward *ward = round_.new_ward();
        if (!ward) return nullptr;
        ward->round = &round_;
        ward->place = &place;
        ward->way = way;
        ward->seed = unsigned(random_());
        ward->streams = streams;
        return ward;
    }

    Way any_way() {
        if (round_.io && chance(4)) return Way::streams;
        return Way(below(5));
    }

    Place &any_place() {
        const int guests = round_.guests;
        if (guests && chance(3)) return round_.place[houses + int(below(unsigned(guests)))];
        return round_.place[below(houses)];
    }

    // Mostly one of the newest: these are still alive.
    Ward *any_ward() {
        const int count = round_.ward_count();
        if (!count) return nullptr;
        const int back = int(below(chance(4) ? unsigned(count) : std::min(unsigned(count), 40u)));
        Ward &ward = round_.ward[count - 1 - back];
        return ward.made && ward.id ? &ward : nullptr;
    }

    // A fiber that the others neither join nor cancel: a driver, or a cord's main flow.
    fiber_t any_permanent() {
        if (chance(2)) return {round_.driver[below(houses * drivers_each)]};
        return {round_.place[below(houses)].main};
    }

    // A result of a call that may switch.
    int64_t check_switching(Call call, int64_t result, std::initializer_list<int> errors) {
        if (result == -EINTR || (result == -ECANCELED && cancellable_) || (result == -ETIMEDOUT && scoped_))
            return result;
        return check(call, result, errors);
    }

    void do_one() {
        const unsigned which = below(fiber_ ? 18 : 10);
        switch (which) {
        case 0:
        case 1: make_and_wake(any_place()); break;
        case 2: make(any_place(), any_way()); break;
        case 3: post(any_place()); break;
        case 4: begin_guest(); break;
        case 5:
            if (const fiber_t fiber = any_permanent(); fiber.id) {
                const int to_wake = fiber_wakeup(fiber), to_interrupt = fiber_interrupt(fiber, nullptr);
                const int gone = round_.acting ? -EBUSY : -ESRCH; // drivers go when all have done
                check(woken, to_wake, {gone});
                check(interrupted, to_interrupt, {-EBUSY, gone});
            }
            break;
        case 6:
        case 7:
        case 8:
        case 9:
        case 10:
        case 11:
        case 12:
        case 13:
            if (Ward *ward = any_ward()) do_to(*ward);
            break;
        case 14: end_guest(); break;
        case 15: spawn_here(); break;
        case 16: check_switching(yielded, fiber_yield_timeout(duration()), {-ETIMEDOUT}); break;
        default: check_switching(slept, fiber_sleep(duration()), {}); break;
        }
    }

    void do_to(Ward &ward) {
        switch (below(fiber_ ? 12 : 6)) {
        case 0:
        case 1: wake(ward); break;
        case 2:
            ward.cancelled = true;
            check(cancelled, fiber_cancel(ward.fiber(), &ward), {-ESRCH});
            break;
        case 3: check(interrupted, fiber_interrupt(ward.fiber(), &ward), {-EBUSY, -ESRCH}); break;
        case 4: detach(ward); break;
        case 5: look_at(ward); break;
        case 6:
            if (check_switching(started, fiber_start(ward.fiber()), {-EBUSY, -ESRCH}) == 0) ward.called = true;
            break;
        case 7: join(ward, 0); break;
        case 8: join(ward, FIBER_MSEC(20)); break;
        default: join(ward, duration()); break;
        }
    }

    void detach(Ward &ward) {
        if (chance(3)) return;
        if (check(detached, fiber_detach(ward.fiber()), {-EINVAL, -ESRCH}) < 0) return;
        EXPECT_FALSE(ward.detached);
        EXPECT_EQ(ward.detaches++, 0);
    }

    void look_at(const Ward &ward) {
        fiber_info_t seen{};
        if (check(told, fiber_info(ward.fiber(), &seen, sizeof seen), {-ESRCH}) < 0) return;
        EXPECT_EQ(seen.id, ward.id);
        if (!ward.place->guest) {
            EXPECT_EQ(seen.cord, ward.place->id);
        }
        EXPECT_TRUE(seen.state >= FIBER_NEW && seen.state <= FIBER_DEAD) << seen.state;
        EXPECT_FALSE(seen.main_flow);
    }

public:
    // Waits for a fiber's end and checks the join's result. Returns the fiber's result. A cancellable caller waits only
    // for a time, as two may wait for each other.
    int64_t join(Ward &ward, int64_t timeout) {
        void *result = &round_;
        const bool for_ever = timeout > FIBER_MSEC(10) && !cancellable_ && ward.called &&
                              (ward.way == Way::returns || ward.way == Way::gives_way || ward.way == Way::sleeps);
        const Call call = for_ever ? joined : joined_in_time;
        int64_t error =
            for_ever ? fiber_join(ward.fiber(), &result) : fiber_join_timeout(ward.fiber(), &result, timeout);
        if (error != -ETIMEDOUT || for_ever)
            check_switching(call, error, {-EINVAL, -ESRCH, ward.place->guest ? -EOWNERDEAD : -ESRCH, -EDEADLK});
        if (error == -EDEADLK) {
            EXPECT_EQ(self().id, ward.id);
        }
        if (error == 0 || error == -EOWNERDEAD) ward.joins++;
        if (error == 0) check_end(ward, result);
        return error;
    }

private:
    void check_end(const Ward &ward, void *result) {
        EXPECT_FALSE(ward.detached);
        if (result == FIBER_CANCELLED) {
            EXPECT_EQ(ward.begun, 0);
            EXPECT_TRUE(ward.cancelled || ward.place->guest);
        } else {
            EXPECT_EQ(result, &ward);
            EXPECT_EQ(ward.ended, 1);
        }
    }

    void make_and_wake(Place &place) {
        if (Ward *ward = make(place, any_way())) wake(*ward);
    }

    void spawn_here() {
        Place *here = nullptr;
        const uint64_t own = this_cord_handle().id;
        for (Place &place : round_.place)
            if (place.id == own) here = &place;
        if (!here) return;
        Ward *ward = prepare(*here, any_way(), nullptr);
        if (!ward) return;
        ward->detached = chance(4);
        if (ward->detached && ward->way == Way::yields) ward->way = Way::returns; // no fiber could end it
        fiber_t fiber{};
        const int error = fiber_spawn(ward->detached ? nullptr : &fiber, begin, ward);
        EXPECT_TRUE(!error || here->guest) << fiber_strerror(error);
        if (check(spawned, error, {-EPIPE}) < 0) return;
        ward->called = true;
        ward->id = fiber.id;
        ward->made = true;
    }

    void post(Place &place) {
        if (!place.id) return;
        Ward *ward = prepare(place, any_way(), nullptr);
        if (!ward) return;
        ward->detached = true;
        if (ward->way == Way::yields) ward->way = Way::returns; // no fiber could end it
        const int error = fiber_post(place.cord(), begin, ward);
        EXPECT_TRUE(!error || place.guest) << fiber_strerror(error);
        if (check(posted, error, {-ESRCH, -EPIPE}) < 0) return;
        ward->called = true;
        ward->made = true;
    }

    static void *guest_main(void *place) {
        static_cast<Place *>(place)->main = self().id;
        fiber_yield_timeout(FIBER_MSEC(1));
        return place;
    }

    void begin_guest() {
        if (round_.closing || round_.guests >= most_guests - houses * drivers_each || !chance(4)) return;
        Place &place = round_.place[houses + round_.guests++];
        place.guest = true;
        fiber_cord_t cord{};
        if (check(cord_begun, fiber_cord_start(&cord, nullptr, guest_main, &place), {}) == 0) place.id = cord.id;
    }

    void end_guest() {
        const int guests = round_.guests;
        if (!guests) return;
        Place &place = round_.place[houses + int(below(unsigned(guests)))];
        if (!place.id) return;
        const int64_t grace = duration();
        if (chance(2)) {
            check_switching(cord_shut_down, fiber_cord_shutdown(place.cord(), grace, grace + duration()), {-ESRCH});
        } else {
            join_guest(place, grace);
        }
    }

public:
    int64_t join_guest(Place &place, int64_t timeout) {
        void *result = nullptr;
        const int error = fiber_cord_join_timeout(place.cord(), &result, timeout);
        check_switching(cord_joined, error, {-ETIMEDOUT, -ESRCH, -EDEADLK});
        if (error == -EDEADLK) {
            EXPECT_EQ(this_cord_handle().id, place.id);
        }
        if (error) return error;
        EXPECT_EQ(result, &place);
        place.joins++;
        return 0;
    }

private:
    Round &round_;
    std::mt19937 random_;
    const bool fiber_;
    const bool cancellable_;
    bool scoped_ = false;
};

// --- Streams
// -------------------------------------------------------------------------------------------------------------

// A pipe or a pair of sockets; fibers of one cord use both ends. Any other fiber may cancel and interrupt the reader,
// and close the descriptor under it: the bytes written were read, or are still there.
struct Streams {
    Stream stream;
    Descriptor spare; // a duplicate of the reading end, to look at the bytes left
    std::atomic<int64_t> read{0};
    int64_t written = 0;
};

void read_all(Streams &streams) {
    char buffer[64];
    for (;;) {
        const int64_t got = fiber_read(streams.stream.reader, buffer, sizeof buffer);
        check(received, got, {-EINTR, -ECANCELED, -EBADF});
        if (got > 0) streams.read += got;
        if (got <= 0 && got != -EINTR) return;
    }
}

void write_some(Actor &actor, Streams &streams) {
    char buffer[100] = {};
    for (int i = int(actor.below(6)); i > 0; i--) {
        const int64_t put = fiber_write(streams.stream.writer, buffer, 1 + actor.below(sizeof buffer));
        check(written, put, {-EINTR, -ECANCELED});
        if (put > 0) streams.written += put;
        if (actor.chance(2)) fiber_sleep(actor.duration());
    }
}

void use_streams(Ward &ward, Actor &actor) {
    Streams streams;
    streams.stream = make_stream(actor.chance(2) ? Kind::pipe : Kind::unix_stream);
    streams.spare = Descriptor(fcntl(streams.stream.reader, F_DUPFD_CLOEXEC, 0));
    Ward *reader = actor.make(*ward.place, Way::reads, &streams);
    if (!reader) return;
    actor.wake(*reader);
    write_some(actor, streams);
    switch (actor.below(3)) {
    case 0: EXPECT_EQ(fiber_close(streams.stream.reader.release()), 0); break;
    case 1: reader->cancelled = true, check(cancelled, fiber_cancel(reader->fiber(), nullptr), {-ESRCH}); break;
    default: EXPECT_EQ(fiber_close(streams.stream.writer.release()), 0); break;
    }
    fiber_scope_t shield{}; // this fiber may be cancelled, and the other still be reading
    EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
    await([&] {
        const int state = fiber_state(reader->fiber());
        return state < 0 || state == FIBER_DEAD;
    });
    fiber_scope_close(shield, nullptr);
    EXPECT_EQ(streams.read + int64_t(drain(streams.spare).size()), streams.written);
}

// --- The fibers' functions -------------------------------------------------------------------------------------------

// Does something, unless everything comes to its end.
void act_in(Round &round, Actor &actor) {
    round.in_an_act++; // before the check of `closing`: a thread that sets it and then sees a count of 0 meets no act
                       // later
    if (!round.closing) actor.act();
    round.in_an_act--;
}

void *begin(void *argument) {
    Ward &ward = *static_cast<Ward *>(argument);
    EXPECT_EQ(ward.begun++, 0);
    if (!ward.place->guest) {
        EXPECT_EQ(this_cord_handle().id, ward.place->id);
    }
    Actor actor(*ward.round, ward.seed, true, true);
    switch (ward.way) {
    case Way::returns: break;
    case Way::gives_way:
        for (int i = 0; i < 5; i++) fiber_reschedule();
        break;
    case Way::sleeps: fiber_sleep(actor.duration()); break;
    case Way::yields: fiber_yield(); break; // for ever, unless another fiber ends it
    case Way::acts:
        for (int i = 0; i < 4; i++) act_in(*ward.round, actor);
        break;
    case Way::streams: use_streams(ward, actor); break;
    case Way::reads: read_all(*ward.streams); break;
    }
    EXPECT_EQ(ward.ended++, 0);
    return &ward;
}

// --- A round
// -------------------------------------------------------------------------------------------------------------

void drive(Round &round, unsigned seed, bool fiber) {
    Actor actor(round, seed, fiber, false);
    for (int i = 0; i < turns; i++) {
        actor.act();
        if (actor.chance(4)) fiber ? fiber_reschedule() : sched_yield();
    }
    round.acting--;
}

struct House {
    Round *round;
    int number;
    void operator()() const {
        Place &place = round->place[number];
        place.main = self().id;
        place.id = this_cord_handle().id;
        await([&] { return std::all_of(round->place, round->place + houses, [](Place &p) { return p.id != 0; }); });
        struct Driver {
            Round *round;
            int number;
            void operator()() const {
                round->driver[number] = self().id;
                drive(*round, round->seed * 1000 + unsigned(number), true);
            }
        } driver[drivers_each];
        fiber_t fiber[drivers_each];
        for (int i = 0; i < drivers_each; i++) {
            driver[i] = {round, number * drivers_each + i};
            fiber[i] = spawn(driver[i]);
        }
        await([&] { return round->acting == 0; });
        for (fiber_t each : fiber) {
            int error;
            while ((error = fiber_join(each, nullptr)) == -EINTR) {}
            EXPECT_EQ(error, 0);
        }
        await([&] { return round->leaving.load(); });
        const fiber_stats_t left = stats();
        EXPECT_EQ(left.fibers, 1u); // this one
        EXPECT_EQ(left.stacks, 0u);
        EXPECT_EQ(left.ops_in_flight, 0u);
    }
};

// A cord that came and went: it ends, if it has not, and is joined once.
void settle_guest(Actor &actor, Place &place) {
    if (!place.id) return;
    const int joins = place.joins;
    if (joins == 0) {
        while (check(cord_shut_down, fiber_cord_shutdown(place.cord(), 0, FIBER_MSEC(5)), {-ESRCH}) > 0) {}
    }
    EXPECT_EQ(actor.join_guest(place, FIBER_SEC(60)), joins ? -ESRCH : 0);
}

// A fiber comes to its end, and has been joined or detached once, or is joined now.
void settle_fiber(Actor &actor, Ward &ward) {
    if (!ward.made) return;
    const bool surely_runs = ward.called && !ward.cancelled && !ward.place->guest;
    const bool runs_unless_stopped = ward.called || ward.cancelled || ward.place->guest;
    if (!ward.id) {
        if (surely_runs) await([&] { return ward.ended == 1; });
    } else if (ward.detached || ward.detaches) {
        await([&] {
            fiber_wakeup(ward.fiber());
            return fiber_state(ward.fiber()) == -ESRCH;
        });
    } else {
        const int joins = ward.joins;
        int64_t error;
        while ((error = actor.join(ward, joins ? 0 : FIBER_USEC(500))) == -ETIMEDOUT) {
            EXPECT_EQ(joins, 0);
            if (fiber_state(ward.fiber()) == FIBER_NEW && !ward.cancelled) {
                ward.cancelled = true;
                fiber_cancel(ward.fiber(), nullptr);
            } else {
                fiber_wakeup(ward.fiber());
            }
        }
        if (joins || (ward.place->guest && ward.place->joins)) {
            EXPECT_EQ(error, -ESRCH);
        } else {
            EXPECT_TRUE(error == 0 || ward.place->guest) << "no fiber has joined it, and its end is lost: " << error;
        }
    }
    if (surely_runs) {
        EXPECT_EQ(ward.begun, 1) << int(ward.way);
    }
    if (!runs_unless_stopped && ward.id && !ward.detached && !ward.detaches) {
        EXPECT_EQ(ward.begun, 0);
    }
    EXPECT_LE(ward.begun, 1);
    EXPECT_LE(ward.ended, ward.begun);
    if (!ward.place->guest) {
        EXPECT_EQ(ward.ended, ward.begun);
    }
}

void settle_everything(Round &round) {
    Actor actor(round, round.seed, true, false);
    for (int i = 0; i < round.guests; i++) settle_guest(actor, round.place[houses + i]);
    for (int i = 0; i < round.ward_count(); i++) settle_fiber(actor, round.ward[i]); // new ones come last
    for (int i = 0; i < round.guests; i++)
        if (!round.place[houses + i].joins) settle_guest(actor, round.place[houses + i]);
}

void run_round(unsigned seed, bool io) {
    Round round;
    round.seed = seed;
    round.io = io;
    round.acting = houses * drivers_each + plain_threads;
    House house[houses];
    fiber_cord_t cord[houses];
    for (int i = 0; i < houses; i++) house[i] = {&round, i};
    for (int i = 0; i < houses; i++) cord[i] = start_cord(house[i]);
    std::vector<std::thread> threads;
    for (int i = 0; i < plain_threads; i++) {
        threads.emplace_back([&round, i] {
            await_holding_the_thread([&] { return round.driver[houses * drivers_each - 1] != 0; });
            drive(round, round.seed * 1000 + 500 + unsigned(i), false);
        });
    }
    await([&] { return round.acting == 0; });
    for (std::thread &thread : threads) thread.join();
    round.closing = true;
    await([&] { return round.in_an_act == 0; }); // else acts join and detach fibers that are settled below, and note it
                                                 // later
    settle_everything(round);
    round.leaving = true;
    for (fiber_cord_t each : cord) join_cord(each);
    if (testing::Test::HasFailure()) std::fprintf(stderr, "it was seed %u\n", seed);
}

// Whether every call has succeeded once, without the I/O calls, or with the reads.
bool all_have_succeeded(bool io) {
    for (int call = 0; call < call_count; call++)
        if (!succeeded[call] && call != received && call != written) return false;
    return !io || succeeded[received];
}

void run_rounds(bool io) {
    const char *given = ::getenv("FIBERRT_STRESS_SEED");
    unsigned seed = given ? unsigned(std::strtoul(given, nullptr, 10)) : std::random_device()() % 1'000'000;
    std::printf("from FIBERRT_STRESS_SEED=%u on\n", seed);
    std::fflush(stdout);
    for (auto &count : succeeded) count = 0;
    const int descriptors = entry_count("/proc/self/fd");
    const int64_t end = fiber_now() + FIBER_MSEC(milliseconds);
    int rounds = 0;
    do {
        run_round(seed++, io);
        rounds++;
    } while ((fiber_now() < end || (rounds < 30 && !all_have_succeeded(io))) && !testing::Test::HasFailure());
    EXPECT_TRUE(eventually([&] { return entry_count("/proc/self/fd") <= descriptors; })) << "descriptors are left";
    std::printf("%d rounds, calls that succeeded:", rounds);
    for (int call = 0; call < call_count; call++) std::printf(" %s %lld", call_name[call], (long long)succeeded[call]);
    std::printf("\n");
    EXPECT_TRUE(all_have_succeeded(io)) << "some call never has";
}

TEST(CordStress, WithoutIo) { run_rounds(false); }

TEST(CordStress, WithIo) {
    NEEDS_IO();
    run_rounds(true);
}

// A join whose message to the fiber's cord is refused, as that cord is just ending, may have been answered already.
TEST(CordStress, TRAP_AJoinOnItsWayMeetsTheEndOfTheCord) {
    constexpr int joiners = 2;
    std::atomic<uint64_t> target{0}; // 1: no more of them
    std::atomic<int> tries{0};
    auto joins = [&] {
        for (uint64_t last = 0;;) {
            await_holding_the_thread([&] { return target != last; });
            last = target;
            if (last == 1) return;
            int error;
            while ((error = fiber_join_timeout({last}, nullptr, 0)) == -ETIMEDOUT) tries++;
            EXPECT_TRUE(error == -EOWNERDEAD || error == -ESRCH) << fiber_strerror(error);
        }
    };
    auto waits = [] { fiber_yield(); };
    auto body = [&] {
        tries = 0;
        target = create(waits, On(this_cord_handle()).daemon()).id;
        await_holding_the_thread([&] { return tries > 0; });
    };
    fiber_cord_t cord[joiners];
    for (fiber_cord_t &each : cord) each = start_cord(joins);
    for (int64_t end = fiber_now() + FIBER_MSEC(milliseconds / 2); fiber_now() < end;) join_cord(start_cord(body));
    target = 1;
    for (fiber_cord_t each : cord) join_cord(each);
}

} // namespace
