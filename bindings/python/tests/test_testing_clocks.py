# SPDX-License-Identifier: MIT OR Apache-2.0
"""In a simulated run, each clock that Python code reads shows simulated time, and each source of random values gives the
same values in each run."""

import textwrap

import pytest
from servers import needs
from test_testing import run, run_pytest

# Each expression gives seconds, or a time, and must pass by 3600 s in time.sleep(3600).
PASSES = [
    "time.time()",
    "time.time_ns() / 1e9",
    "time.monotonic()",
    "time.monotonic_ns() / 1e9",
    "time.perf_counter()",
    "time.perf_counter_ns() / 1e9",
    "time.process_time()",
    "time.process_time_ns() / 1e9",
    "time.thread_time()",
    "time.thread_time_ns() / 1e9",
    "time.clock_gettime(time.CLOCK_REALTIME)",
    "time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9",
    "time.clock_gettime(time.CLOCK_MONOTONIC)",
    "time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) / 1e9",
    "time.clock_gettime(time.CLOCK_BOOTTIME)",
    "time.clock_gettime(time.CLOCK_TAI)",
    "time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)",
    "time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)",
    "imported_monotonic()",
    "bound_time()",
    "calendar.timegm(time.gmtime())",
    "time.mktime(time.localtime())",
    "time.mktime(time.strptime(time.ctime()))",
    "time.mktime(time.strptime(time.asctime()))",
    "int(time.strftime('%s'))",
    "datetime.datetime.now().timestamp()",
    "datetime.datetime.now(datetime.timezone.utc).timestamp()",
    "datetime.datetime.now(tz=zoneinfo.ZoneInfo('UTC')).timestamp()",
    "datetime.datetime.utcnow().replace(tzinfo=datetime.timezone.utc).timestamp()",
    "datetime.datetime.today().timestamp()",
    "OwnDatetime.now().timestamp()",
    "email.utils.parsedate_to_datetime(email.utils.formatdate()).timestamp()",
    "email.utils.localtime().timestamp()",
    "logging.makeLogRecord({}).created",
    "logging.makeLogRecord({}).relativeCreated / 1000",
    "(uuid.uuid1().time - 0x01b21dd213814000) / 1e7",
    "(uuid.uuid1(node=7).time - 0x01b21dd213814000) / 1e7",
    "asyncio.run(loop_time())",
    "sched.scheduler().timefunc()",
]

PROGRAM = """
    import asyncio, calendar, concurrent.futures, datetime, email.utils, io, logging, os, queue, random, sched, secrets
    import select, socket, tempfile, threading, time, uuid, warnings, zipfile, zoneinfo
    from os import getrandom, urandom
    from time import monotonic as imported_monotonic
    from fiberrt.testing import simulate

    bound_time = time.time
    uuid.getnode()
    logging.makeLogRecord({})
    warnings.simplefilter("ignore")

    class OwnDatetime(datetime.datetime):
        pass

    async def loop_time():
        return asyncio.get_running_loop().time()
"""


@pytest.mark.parametrize("clocks", [PASSES[i::4] for i in range(4)], ids=str)
def test_each_clock_shows_simulated_time(tmp_path, clocks):
    code = PROGRAM + f"""
    @simulate(seeds=2)
    def test_it():
        wrong = []
        for text in {clocks!r}:
            before = eval(text)
            time.sleep(3600)
            passed = eval(text) - before
            if not 3598 < passed < 3602:
                wrong.append((text, before, passed))
        assert not wrong, wrong
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_the_day_is_the_simulated_one(tmp_path):
    code = PROGRAM + """
    @simulate(seeds=2)
    def test_it():
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("name", "")
            assert file.getinfo("name").date_time[:3] == (2033, 5, 18)
        assert datetime.date.today() == OwnDatetime.today().date() == datetime.date(2033, 5, 18)
        assert time.strftime("%Y-%m-%d") == "2033-05-18" and type(OwnDatetime.now()) is OwnDatetime
        assert uuid.uuid1().version == uuid.uuid1(clock_seq=3).version == 1
        time.sleep(86400)
        assert datetime.date.today().day == 19
    test_it()
    """
    status, told = run(tmp_path, code, TZ="UTC")
    assert status == 0, told


def test_waits_with_a_timeout_take_simulated_time(tmp_path):
    code = PROGRAM + """
    def wait_for_thread():
        thread = threading.Thread(target=time.sleep, args=(7200,), daemon=True)
        thread.start()
        thread.join(3600)
        assert thread.is_alive()

    def wait_for_future():
        with concurrent.futures.ThreadPoolExecutor() as pool:
            assert not concurrent.futures.wait([pool.submit(time.sleep, 3601)], timeout=3600).done

    def wait_for_queue():
        try:
            queue.Queue().get(timeout=3600)
        except queue.Empty:
            pass

    def wait_for_lock():
        lock = threading.Lock()
        lock.acquire()
        assert not lock.acquire(timeout=3600)

    def wait_for_condition():
        condition = threading.Condition()
        with condition:
            assert not condition.wait(3600)
            assert not condition.wait_for(lambda: False, 0)

    def wait_for_barrier():
        try:
            threading.Barrier(2).wait(3600)
        except threading.BrokenBarrierError:
            pass

    def wait_for_poll():
        one, other = socket.socketpair()
        poll = select.poll()
        poll.register(one, select.POLLIN)
        assert poll.poll(3_600_000) == []

    def wait_for_socket():
        one, other = socket.socketpair()
        one.settimeout(3600)
        try:
            one.recv(1)
        except TimeoutError:
            pass

    def wait_for_schedule():
        scheduler = sched.scheduler()
        scheduler.enter(3600, 1, lambda: None)
        scheduler.run()

    def wait_in_select():
        one, other = socket.socketpair()
        assert select.select([one], [], [], 3600) == ([], [], [])

    async def main():
        await asyncio.sleep(3600)

    @simulate(seeds=3)
    def test_it():
        waits = [
            wait_for_thread, wait_for_future, wait_for_queue, wait_for_lock, wait_for_condition, wait_for_barrier,
            wait_for_poll, wait_for_socket, wait_for_schedule, wait_in_select, lambda: threading.Event().wait(3600),
            lambda: threading.Semaphore(0).acquire(timeout=3600), lambda: asyncio.run(main()),
        ]
        for wait in waits:
            before = time.monotonic()
            wait()
            assert 3599.99 < time.monotonic() - before < 3602, (wait, time.monotonic() - before)
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


VALUES = """
        values = (
            uuid.uuid1(), uuid.uuid1(), uuid.uuid4(), uuid.getnode(), os.urandom(3), urandom(3), os.getrandom(3),
            getrandom(size=3, flags=os.GRND_NONBLOCK), random.random(), random.SystemRandom().random(),
            random.Random().random(), secrets.token_hex(3), secrets.choice(range(1000)), secrets.randbelow(1000), tempfile.mktemp(dir=""),
            os.path.basename(tempfile.mkdtemp()), os.path.basename(tempfile.NamedTemporaryFile().name),
            logging.makeLogRecord({}).relativeCreated < 60_000, email.utils.make_msgid(domain="x").partition(".")[0],
            hash("a string"), {"one", "two", "three"}, time.strftime("%c"), time.time_ns(),
        )
"""


def test_random_values_and_names_are_the_same_in_each_run_and_each_process(tmp_path):
    code = PROGRAM + """
    seen = os.open("values", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    @simulate(seeds=6)
    def test_it():
""" + VALUES + """
        assert len(set(values[:3])) == 3 and len(set(values[4:8])) == 4
        os.write(seen, (repr(values) + "\\n").encode())
    test_it()
    """
    for _ in range(2):
        status, told = run(tmp_path, code, PYTHONHASHSEED="0", TZ="UTC")
        assert status == 0, told
    lines = set((tmp_path / "values").read_text().splitlines())
    assert len(lines) == 1, lines


def test_numpy_s_generators_are_the_same_in_each_run(tmp_path):
    needs("the test of numpy's random numbers in fiberrt.testing", "numpy")
    code = PROGRAM + """
    import numpy
    seen = os.open("values", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    @simulate(seeds=3)
    def test_it():
        os.write(seen, f"{numpy.random.random()} {numpy.random.default_rng().random()}\\n".encode())
    test_it()
    """
    for _ in range(2):
        status, told = run(tmp_path, code)
        assert status == 0, told
    assert len(set((tmp_path / "values").read_text().splitlines())) == 1


def test_temporary_files_are_the_run_s_own_and_are_removed(tmp_path):
    (tmp_path / "files").mkdir()
    code = PROGRAM + """
    own = tempfile.mkdtemp(dir=".")

    @simulate(seeds=10)
    def test_it():
        folder = tempfile.gettempdir()
        assert os.listdir(folder) == [] and folder.startswith(FOLDER) and folder != FOLDER
        tempfile.mkstemp(), tempfile.mkdtemp()
        assert os.path.isdir(own)

    @simulate(seeds=3)
    def test_own_folder():
        assert tempfile.gettempdir() == own

    FOLDER = tempfile.gettempdir()
    test_it()
    tempfile.tempdir = own
    test_own_folder()
    """
    status, told = run(tmp_path, code, TMPDIR=str(tmp_path / "files"))
    assert status == 0, told
    assert list((tmp_path / "files").iterdir()) == []


def test_clocks_and_random_bytes_refuse_wrong_arguments(tmp_path):
    code = PROGRAM + """
    def error_of(call):
        try:
            call()
        except Exception as error:
            return type(error)

    calls = [
        lambda: os.getrandom(-1), lambda: os.getrandom(), lambda: os.getrandom("1"), lambda: os.urandom(-1),
        lambda: time.clock_gettime(), lambda: time.clock_gettime("1"), lambda: time.clock_gettime(12345),
        lambda: time.clock_gettime_ns(1 << 70), lambda: datetime.datetime.now(3), lambda: time.strftime("%Y", 3),
    ]
    outside = [error_of(call) for call in calls]

    @simulate(seeds=1)
    def test_it():
        inside = [error_of(call) for call in calls]
        # os.getrandom(-1) is an OSError outside, as os.getrandom(0, 99) is.
        assert inside[1:] == outside[1:], (inside, outside)
        assert inside[0] in (ValueError, OSError) and None not in inside
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_the_plugin_starts_the_time_anew_in_each_run(tmp_path):
    code = """
    import time
    import pytest

    BEFORE = time.time()

    @pytest.fixture
    def clock():
        return time.time()

    @pytest.mark.parametrize("number", range(2))
    def test_it(number, clock):
        assert BEFORE < 2e9 <= clock < 2e9 + 1, clock
    """
    status, told = run_pytest(tmp_path, textwrap.dedent(code), "--fiberrt-sim=5")
    assert status == 0, told
