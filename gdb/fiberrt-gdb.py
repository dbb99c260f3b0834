# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shows the fibers of libfiberrt in gdb, for live processes and core files, with or without debug information.

    (gdb) source fiberrt-gdb.py
    (gdb) info fibers                 lists every fiber with its cord, its state and the reason why it waits
    (gdb) fiber 3                     shows the frames of fiber 3 in its thread, until the program continues
    (gdb) fiber apply all backtrace   runs a command for each fiber
    (gdb) fiber thread                shows the thread's own frames again
    (gdb) help fiber

A parked fiber's registers are saved in a frame on its stack. To show them, the script does not change the program: an
unwinder tells gdb that the fiber called the thread's innermost frame. A filter removes that frame from backtraces,
which therefore begin with #1.

The library describes its own data, offsets as well as the texts for states, in the section .fiberrt_layout
(src/debug/layout.cc). Each copy of the library in the process has this section. The fibers of a second copy have
numbers such as 2.3.
"""

import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

SECTION = ".fiberrt_layout"
MAGIC = b"fiberrt layout\0\0"
VERSION = 3
VALUES_MOST = 64

STACK_POINTERS = {"rsp", "sp"}
PROGRAM_COUNTERS = {"rip", "pc"}


def read(address, size):
    # The number may come from overwritten memory, so it is cut to 64 bits.
    return gdb.selected_inferior().read_memory(address & (1 << 64) - 1, size).tobytes()


def read_text(address, most=4096):
    text = b""
    while len(text) < most:
        text += read(address + len(text), 1)
        if text.endswith(b"\0"):
            return text[:-1].decode("ascii", "replace")
    raise gdb.GdbError("fiberrt: the library's description of its data cannot be read")


def integer(size, memory, offset):
    return int.from_bytes(memory[offset:offset + size], "little")


def name_in(memory, offset, size):
    name = memory[offset:offset + size].split(b"\0")[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in name)


def without_signature(address):
    """Returns a return address of AArch64 without its signature, which is in bits that no address uses."""
    mask = gdb.parse_and_eval("$pauth_cmask")  # void: gdb does not know these bits of the processor
    unused = int(mask) if mask.type.code != gdb.TYPE_CODE_VOID else 0xffff << 48
    return address & ~unused & (1 << 64) - 1


def named(table, number, otherwise):
    """Looks up a number in one of the library's tables; returns its name and text."""
    return table[number] if number < len(table) else ("", otherwise)


def counted(count, singular):
    return "%d %s%s" % (count, singular, "" if count == 1 else "s")


class Copy:
    """A copy of the library in the process."""

    def __init__(self, number, address, place):
        self.number = number
        self.place = place
        fixed = struct.Struct("<16s10Q")
        magic, version, self.fibers, self.cords, names, registers, states, kinds, waits, ops, self.library = fixed.unpack(
            read(address, fixed.size))
        if magic != MAGIC or version != VERSION:
            raise gdb.GdbError("fiberrt: %s does not fit this script (version %d, not %d)" % (place, version, VERSION))
        if not self.fibers or not self.cords:
            raise gdb.GdbError("fiberrt: %s is not loaded yet, or the core file lacks its data" % place)
        values = struct.unpack("<%dq" % VALUES_MOST, read(address + fixed.size, 8 * VALUES_MOST))
        self.of = dict(zip(read_text(names).split(), values))
        self.states, self.kinds, self.waits, self.ops = (
            [tuple(line.split(" ", 1)) for line in read_text(texts).splitlines()] for texts in (states, kinds, waits, ops))
        self.frame = []  # registers, and their offsets in the frame
        for entry in read_text(registers).split():
            if "+" in entry:
                self.stack_pointer, after = entry.split("+")
                self.after_frame = int(after)
            else:
                register, offset = entry.split("=")
                self.frame.append((register, int(offset)))

    def __getitem__(self, name):
        try:
            return self.of[name]
        except KeyError:
            raise gdb.GdbError("fiberrt: %s lacks %s, which this script needs" % (self.place, name)) from None

    def slots(self, table, kind):
        """Yields the slots of a table that are in use, as (index, address, memory)."""
        size, chunk = self[kind + "_size"], self[kind + "_chunk"]
        for c in range(self[kind + "_chunks"]):
            at = integer(8, read(table + 8 * c, 8), 0)
            if not at:
                return
            try:
                memory = read(at, size * chunk)
            except gdb.MemoryError:
                print("Some %ss are left out: the memory at 0x%x cannot be read." % (kind, at))
                continue
            for i in range(chunk):
                one = memory[i * size:(i + 1) * size]
                if integer(4, one, self[kind + "_generation"]) & 1:
                    yield c * chunk + i, at + i * size, one

    def id_of(self, kind, index, memory):
        return self[kind + "_tag"] << 56 | index << 32 | integer(4, memory, self[kind + "_generation"])


def copies():
    """Returns all copies of the library that gdb knows of."""
    found = []
    for line in gdb.execute("info files", to_string=True).splitlines():
        words = line.split()
        # ADDRESS - ADDRESS is SECTION [in FILE]
        if len(words) >= 5 and words[1] == "-" and words[4] == SECTION:
            place = " ".join(words[6:]) if len(words) > 6 else "the program"
            found.append((int(words[0], 16), place))
    if not found:
        raise gdb.GdbError("fiberrt: there is no libfiberrt in this process, or gdb has not read its file")
    return [Copy(n, address, place) for n, (address, place) in enumerate(sorted(found), 1)]


class Cord:
    def __init__(self, copy, index, address, memory):
        self.copy = copy
        self.address = address
        self.id = copy.id_of("cord", index, memory)
        self.name = name_in(memory, copy["cord_name"], copy["cord_name_size"])
        self.current = integer(8, memory, copy["cord_current"])
        self.main = integer(8, memory, copy["cord_main"])
        self.entered_by = integer(8, memory, copy["cord_entered_by"])
        self.executor = integer(8, memory, copy["cord_executor"])
        self.thread_number = integer(4, memory, copy["cord_thread"])
        self.ended = bool(memory[copy["cord_ended"]])
        self.thread = None
        if not self.ended:
            self.thread = next((t for t in gdb.selected_inferior().threads() if t.ptid[1] == self.thread_number), None)
        self.on_thread = 0  # the address of the fiber on whose stack the thread runs

    def stack_pointer(self):
        """Returns the thread's own stack pointer, even while a fiber is shown in the thread's place."""
        if self.thread is None:
            return None
        with Unselected():
            self.thread.switch()
            return int(gdb.newest_frame().read_register("sp")) & (1 << 64) - 1

    def find_who_is_on_thread(self, fibers):
        """Finds the fiber on whose stack the thread runs, by the stack pointer.

        It need not be the current fiber: a fiber that waits polls for the others on its own stack."""
        sp = self.stack_pointer()
        own = [f for f in fibers if f.cord_address == self.address]
        for fiber in own:
            low = fiber.stack_low and fiber.stack_low - fiber.guard_size  # after an overflow sp is in the guard
            if sp is not None and low and low <= sp < fiber.stack_low + fiber.stack_size:
                self.on_thread = fiber.address
                return
        current = next((f for f in own if f.address == self.current), None)
        if current is None:
            return  # the fiber has ended, and its stack is free
        if current.hosted:
            self.on_thread = self.entered_by if current.is_entered else self.executor
        elif not current.stack_low or sp is None:
            self.on_thread = current.address


class Fiber:
    def __init__(self, copy, index, address, memory):
        self.copy = copy
        self.index = index
        self.address = address
        self.id = copy.id_of("fiber", index, memory)
        self.name = name_in(memory, copy["fiber_name"], copy["fiber_name_size"])
        self.sp = integer(8, memory, copy["fiber_sp"])
        self.state, self.state_text = named(copy.states, memory[copy["fiber_state"]], "in an unknown state")
        self.kind, self.kind_text = named(copy.kinds, memory[copy["fiber_kind"]], "")
        self.cord_address = integer(8, memory, copy["fiber_cord"]) & ~1
        self.wait = integer(8, memory, copy["fiber_wait"])
        self.permit = bool(memory[copy["fiber_permit"]])
        self.cancelled = bool(memory[copy["fiber_cancelled"]])
        self.detached = bool(memory[copy["fiber_detached"]])
        self.stack_low = integer(8, memory, copy["fiber_stack_low"])
        stack_class = memory[copy["fiber_stack_class"]]
        self.hosted = stack_class == copy["no_stack"]
        size = (stack_class & copy["stack_class_mask"]) >> copy["stack_size_shift"]
        self.stack_size = 1 << copy["least_stack_bits"] + size
        guard = stack_class & copy["stack_without_guard"]
        if guard == copy["stack_without_guard"]:
            self.guard_size = 0
        else:
            self.guard_size = copy["guard_default"] << guard * copy["guard_step_bits"]
            self.guard_size *= 2 if self.guard_size == self.stack_size else 1
        self.is_entered = bool(memory[copy["fiber_flags"]] & copy["flag_entered"])
        self.cord = None

    def on_thread(self):
        return self.cord is not None and self.cord.on_thread == self.address

    def has_frames(self):
        if self.on_thread():
            return self.cord.thread is not None
        return self.sp != 0 and not self.hosted and self.state != "dead"

    def number(self, several):
        return "%d.%d" % (self.copy.number, self.index) if several else str(self.index)

    def what_it_waits_for(self):
        copy = self.copy
        what, text = named(copy.waits, integer(4, read(self.wait + copy["wait_what"], 4), 0), "waits")
        if what == "fiber":
            target = integer(8, read(self.wait + copy["wait_fiber"], 8), 0)
            return text + "0x%016x" % id_of_fiber_at(copy, target)
        if what in ("foreign_fiber", "cord"):
            return text + "0x%016x" % integer(8, read(self.wait + copy["wait_end"], 8), 0)
        if what == "op":
            return text + self.operation()
        if what in ("primitive", "channel"):
            at = self.wait + copy["wait_waiters"]
            for offset in (copy["waiter_kind"], copy["kind_text"]):
                at = integer(8, read(at, 8), 0) + offset
            return text + read_text(integer(8, read(at, 8), 0))
        return text

    def operation(self):
        copy = self.copy
        code, text = named(copy.ops, read(self.wait + copy["op_code"], 1)[0], "an operation")
        text = "its " * (code == "moment") + text
        fd = struct.unpack("<i", read(self.wait + copy["op_fd"], 4))[0]
        if code == "close":
            fd = integer(4, read(self.wait + copy["op_offset"], 4), 0)
        if fd >= 0:
            text += " on descriptor %d" % fd
        if integer(4, read(self.wait + copy["op_stop_reason"], 4), 0):
            text += ", which is asked to end"
        return text

    def describe(self):
        try:
            text = self.state_text
            if self.state == "waiting":
                text = self.what_it_waits_for()
            elif self.state == "transferring":
                text += "fiber 0x%016x" % self.wait  # the target's handle is stored in place of the Wait
        except gdb.MemoryError:
            text += " (the reason cannot be read)"
        if self.cancelled:
            text += "; cancelled"
        if self.permit:
            text += "; a wakeup is remembered"
        if self.detached and self.kind != "main_flow":
            text += "; detached"
        if self.hosted:
            text += "; hosted"
        if self.kind_text:
            text += "; " + self.kind_text
        return text

    def registers(self):
        """Returns the registers with which a parked fiber will continue."""
        saved = [(name, integer(8, read(self.sp + offset, 8), 0)) for name, offset in self.copy.frame]
        if any(name == "x30" for name, _ in saved):
            saved = [(name, without_signature(number) if name in ("x30", "pc") else number) for name, number in saved]
        return saved + [(self.copy.stack_pointer, self.sp + self.copy.after_frame)]


def id_of_fiber_at(copy, address):
    """Returns the handle of the fiber in the slot at an address."""
    size, chunk = copy["fiber_size"], copy["fiber_chunk"]
    for c in range(copy["fiber_chunks"]):
        at = integer(8, read(copy.fibers + 8 * c, 8), 0)
        if not at:
            return 0
        if at <= address < at + size * chunk:
            return copy.id_of("fiber", c * chunk + (address - at) // size, read(address, size))
    return 0


def look():
    """Reads all copies. Returns whether there are several copies, all fibers, all cords."""
    all_copies = copies()
    fibers, cords = [], []
    for copy in all_copies:
        its_fibers = [Fiber(copy, *slot) for slot in copy.slots(copy.fibers, "fiber")]
        its_fibers = [f for f in its_fibers if f.cord_address]
        its_cords = [Cord(copy, *slot) for slot in copy.slots(copy.cords, "cord")]
        at = {cord.address: cord for cord in its_cords}
        for cord in its_cords:
            cord.find_who_is_on_thread(its_fibers)
        for fiber in its_fibers:
            fiber.cord = at.get(fiber.cord_address)
        fibers += its_fibers
        cords += its_cords
    return len(all_copies) > 1, fibers, cords


class Shown:
    """The fiber whose frames gdb shows in its thread; there is at most one."""

    times_gone_on = 0  # how often the program has continued since gdb loaded this script
    fiber = None  # its number, as info fibers prints it
    id = 0
    ptid = None
    innermost = None  # program counter and stack pointer of the thread itself
    registers = ()
    pc = sp = 0

    @classmethod
    def clear(cls, *_):
        if cls.ptid is not None:
            cls.ptid = cls.fiber = None
            cls.id = 0
            gdb.invalidate_cached_frames()

    @classmethod
    def program_goes_on(cls, *_):
        cls.times_gone_on += 1
        cls.clear()

    @classmethod
    def state(cls):
        return (cls.fiber, cls.id, cls.ptid, cls.innermost, cls.registers, cls.pc, cls.sp)

    @classmethod
    def restore(cls, state):
        if cls.state() != state:
            cls.fiber, cls.id, cls.ptid, cls.innermost, cls.registers, cls.pc, cls.sp = state
            gdb.invalidate_cached_frames()

    @classmethod
    def here(cls):
        thread = gdb.selected_thread()
        return cls.ptid is not None and thread is not None and thread.ptid == cls.ptid


class Unselected:
    """A context in which no fiber is shown. Its end selects the previous thread, fiber and frame again."""

    def __enter__(self):
        self.state = Shown.state()
        self.times_gone_on = Shown.times_gone_on
        self.thread = gdb.selected_thread()
        self.level = gdb.selected_frame().level() if self.thread is not None else 0
        Shown.clear()
        return self

    def program_has_gone_on(self):
        return Shown.times_gone_on != self.times_gone_on

    def __exit__(self, *_):
        if self.program_has_gone_on():
            return  # gdb has selected the thread that stopped, and the fiber may have moved on
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
        Shown.restore(self.state)
        if self.thread is not None and self.thread.is_valid():
            select_level(self.level)


def select_level(level):
    frame = gdb.newest_frame()
    while frame is not None and frame.level() < level:
        frame = frame.older()
    if frame is not None:
        frame.select()


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


def value(number):
    return gdb.Value(number & (1 << 64) - 1).cast(gdb.lookup_type("unsigned long"))


class FiberUnwinder(Unwinder):
    """Tells gdb that the shown fiber called the thread's innermost frame."""

    def __init__(self):
        super().__init__("fiberrt")

    def __call__(self, pending):
        if not Shown.here():
            return None
        # Functions inlined into the innermost frame are frames of their own before it, with the same registers.
        innermost = (int(pending.read_register("pc")), int(pending.read_register("sp")))
        if tuple(n & (1 << 64) - 1 for n in innermost) != Shown.innermost:
            return None
        # An address just below the fiber's frame: gdb reports a corrupt stack if a caller's frame is below its
        # callee's.
        info = pending.create_unwind_info(FrameId(value(Shown.sp - 16), value(innermost[0])))
        for name, number in Shown.registers:
            info.add_saved_register(name, value(number))
        return info


class FiberFilter:
    """Removes the thread's own frames from the backtrace of a fiber."""

    def __init__(self):
        self.name = "fiberrt"
        self.priority = 1
        self.enabled = True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if not Shown.here():
            return frames
        return without_the_threads_own(frames)


def is_own_frame(frame):
    here = (frame.pc() & (1 << 64) - 1, int(frame.read_register("sp")) & (1 << 64) - 1)
    return here == Shown.innermost


def without_the_threads_own(frames):
    skipping = True
    for decorated in frames:
        if skipping:
            skipping = is_own_frame(decorated.inferior_frame())
        if not skipping:
            yield decorated


def show(fiber, several):
    """Shows and selects a fiber's frames. Raises GdbError if it has none."""
    if not fiber.has_frames():
        why = "it is hosted, and has no stack" if fiber.hosted else describe_missing(fiber)
        raise gdb.GdbError("fiberrt: fiber %s has no frames: %s" % (fiber.number(several), why))
    Shown.clear()
    thread = fiber.cord.thread if fiber.cord is not None else None
    if thread is not None:
        thread.switch()
    elif gdb.selected_thread() is None:
        raise gdb.GdbError("fiberrt: no thread is selected")
    newest = gdb.newest_frame()
    newest.select()
    if fiber.on_thread():
        return
    try:
        registers = fiber.registers()
    except gdb.MemoryError:
        raise gdb.GdbError("fiberrt: fiber %s has no frames: its saved registers at 0x%x cannot be read" %
                           (fiber.number(several), fiber.sp)) from None
    by_name = dict(registers)
    innermost = (newest.pc() & (1 << 64) - 1, int(newest.read_register("sp")) & (1 << 64) - 1)
    pc = next(by_name[name] for name in PROGRAM_COUNTERS if name in by_name)
    sp = next(by_name[name] for name in STACK_POINTERS if name in by_name)
    Shown.restore((fiber.number(several), fiber.id, gdb.selected_thread().ptid, innermost, registers, pc, fiber.sp))
    frame = gdb.newest_frame()
    while frame is not None and is_own_frame(frame):
        frame = frame.older()
    if frame is None or int(frame.read_register("sp")) & (1 << 64) - 1 != sp:
        Shown.clear()
        raise gdb.GdbError("fiberrt: gdb cannot unwind to the frames of fiber %s" % fiber.number(several))
    frame.select()


def describe_missing(fiber):
    if fiber.on_thread():
        return "gdb does not see its thread"
    if fiber.state in ("created", "scheduled", "awaiting_stack"):
        return "it has not begun"
    return "it has ended" if fiber.state == "dead" else "it is not parked"


def headline(fiber, several):
    name = ' "%s"' % fiber.name if fiber.name else ""
    return "Fiber %s (0x%016x%s): %s" % (fiber.number(several), fiber.id, name, fiber.describe())


def find(text, fibers, several):
    """Returns the fiber that the text names: by its number as info fibers prints it, its name, or its handle."""
    for fiber in fibers:
        if text in (fiber.number(several), fiber.number(True)):
            return fiber
    named = [f for f in fibers if f.name == text]
    if len(named) == 1:
        return named[0]
    if named:
        raise gdb.GdbError("fiberrt: %s have the name %s" % (counted(len(named), "fiber"), text))
    try:
        wanted = gdb.parse_and_eval(text)
        if wanted.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            wanted = wanted["id"]  # the value is a fiber_t
        wanted = int(wanted) & (1 << 64) - 1
    except (gdb.error, ValueError, TypeError):
        raise gdb.GdbError("fiberrt: %s is not the number, name or handle of a fiber" % text) from None
    for fiber in fibers:
        if wanted == fiber.id or (not several and wanted == fiber.index):
            return fiber
    raise gdb.GdbError("fiberrt: there is no fiber %s" % text)


def need_process():
    if gdb.selected_thread() is None:
        raise gdb.GdbError("fiberrt: there is no process and no core file")


class InfoFibers(gdb.Command):
    """Lists every cord and its fibers: number, handle, name, state, and the reason why the fiber waits.

A * marks the fiber whose frames are shown, a + the fibers that run on their threads."""

    def __init__(self):
        super().__init__("info fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        need_process()
        if argument:
            raise gdb.GdbError("fiberrt: info fibers takes no argument")
        several, fibers, cords = look()
        chosen = self.chosen(fibers)
        for cord in cords:
            own = [f for f in fibers if f.cord is cord]
            name = ' "%s"' % cord.name if cord.name else ""
            place = ", thread %d (LWP %d)" % (cord.thread.num, cord.thread_number) if cord.thread is not None else ""
            ended = ", ended, not joined" if cord.ended else ""
            of_copy = " of copy %d, %s" % (cord.copy.number, cord.copy.place) if several else ""
            print("Cord 0x%016x%s%s%s%s: %s" % (cord.id, name, of_copy, place, ended, counted(len(own), "fiber")))
            for fiber in own:
                mark = "+" if fiber.on_thread() else " "
                if fiber.id == chosen and fiber.copy is self.chosen_copy:
                    mark = "*"
                print("%s %s" % (mark, headline(fiber, several)))
        strangers = [f for f in fibers if f.cord is None]
        for fiber in strangers:
            print("  %s; its cord is gone" % headline(fiber, several))
        if not fibers and not cords:
            print("There are no fibers.")

    def chosen(self, fibers):
        """Returns the handle of the fiber whose frames the selected thread shows, or 0."""
        self.chosen_copy = None
        thread = gdb.selected_thread()
        # Each copy may have a fiber that runs on the thread. Fibers with a stack come first: they were found by it.
        for fiber in sorted(fibers, key=lambda fiber: not fiber.stack_low):
            if Shown.here():
                mine = fiber.id == Shown.id and Shown.fiber in (fiber.number(True), fiber.number(False))
            else:
                mine = fiber.on_thread() and fiber.cord.thread is not None and fiber.cord.thread.ptid == thread.ptid
            if mine:
                self.chosen_copy = fiber.copy
                return fiber.id
        return 0


class FiberCommand(gdb.Command):
    """Shows the frames of a fiber instead of those of the thread: fiber NUMBER, fiber NAME, or fiber HANDLE.

NUMBER is the number that info fibers prints; HANDLE is any expression whose value is a fiber_t or the number in it.
Then backtrace, up, frame, info locals and the like show the fiber, until the program continues or you choose another
fiber. The program is not changed. Before you step, enter `fiber thread`.
Without an argument, prints which fiber is shown."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        need_process()
        text = argument.strip()
        if not text:
            if Shown.here():
                print("Fiber %s (0x%016x) is shown." % (Shown.fiber, Shown.id))
            else:
                print("The thread itself is shown.")
            return
        several, fibers, _ = look()
        fiber = find(text, fibers, several)
        show(fiber, several)
        print(headline(fiber, several))
        gdb.execute("frame")


class FiberThread(gdb.Command):
    """Shows the thread's own frames again."""

    def __init__(self):
        super().__init__("fiber thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        need_process()
        Shown.clear()
        gdb.newest_frame().select()
        gdb.execute("frame")


class FiberApply(gdb.Command):
    """Runs a command for several fibers: fiber apply all COMMAND, or fiber apply NUMBER... COMMAND.

all stands for every fiber that has frames. The selected thread, fiber and frame stay selected. A command that lets the
program continue runs for the first fiber only."""

    def __init__(self):
        super().__init__("fiber apply", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        need_process()
        words = argument.split()
        several, fibers, _ = look()
        if words and words[0] == "all":
            chosen = [f for f in fibers if f.has_frames()]
            rest = argument.strip()[len("all"):].strip()
        else:
            chosen, rest = [], argument.strip()
            while rest and rest[0].isdigit():
                word, _, rest = rest.partition(" ")
                chosen.append(find(word, fibers, several))
                rest = rest.strip()
        if not rest or (not chosen and words[0] != "all"):
            raise gdb.GdbError("fiberrt: fiber apply needs all, or numbers of fibers, and a command")
        with Unselected() as unselected:
            for fiber in chosen:
                print("\n" + headline(fiber, several))
                try:
                    show(fiber, several)
                    gdb.execute(rest)
                except (gdb.error, gdb.GdbError) as error: # go on with the other fibers
                    print("  %s" % str(error).replace("fiberrt: ", ""))
                if unselected.program_has_gone_on():
                    raise gdb.GdbError("fiberrt: the program has gone on: the command is not run for other fibers")
            Shown.clear()


register_unwinder(None, FiberUnwinder(), replace=True)
FiberFilter()
gdb.events.cont.connect(Shown.program_goes_on)
gdb.events.exited.connect(Shown.clear)
InfoFibers()
FiberCommand()
FiberThread()
FiberApply()
