# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which pages the manual has, and what stands on each: mdoc(7) made of what header.py has read."""

import datetime
import functools
import os
import re
import textwrap
from pathlib import Path

from header import split_errors
from mdoc import Writer, argument

# What the names of a page's functions match, and what it is about. Of a function that none of these matches: if it is of
# a type of the caller's memory (fiber_sem_t), its page is about these, as the comment behind the type calls them; else
# it has a separate page, which its first sentence describes.
GROUPS = (
    (r"fiber_version", "the version of the library that runs"),
    (r"fiber_strerror", "a sentence for a result"),
    (r"fiber_now", "the time by which deadlines are measured"),
    (r"fiber_set_fork_policy", "set whether forked children may use fibers"),
    (r"fiber_detach", "detach a fiber"),
    (r"fiber_exit", "end the calling fiber"),
    (r"fiber_self", "return the handle of the calling fiber"),
    (r"fiber_state", "return the state of a fiber"),
    (r"fiber_sleep", "wait for a time"),
    (r"fiber_every", "wait for the next tick of a fixed interval"),
    (r"fiber_cord_start", "start a thread with a cord"),
    (r"fiber_cord_shutdown", "end the fibers of a cord"),
    (r"fiber_post", "start a fiber on any cord"),
    (r"fiber_once", "call a function once"),
    (r"fiber_select", "wait until one of several calls can be made"),
    (r"fiber_connect", "connect a socket"),
    (r"fiber_close", "close a descriptor"),
    (r"fiber_statx", "read the status of a file"),
    (r"fiber_poll_fd", "wait until a descriptor is ready"),
    (r"fiber_getdents64", "read a directory"),
    (r"fiber_splice", "move data between descriptors"),
    (r"fiber_copy", "copy from one descriptor to another"),
    (r"fiber_process_spawn", "run a program in a child process"),
    (r"fiber_sigwait", "wait for a signal"),
    (r"fiber_getaddrinfo", "the addresses of a name"),
    (r"fiber_dial", "connect to an address that is given as text"),
    (r"fiber_hooks_set", "the hooks of a cord"),
    (r"fiber_exchange", "run hosted fibers in batches"),
    (r"fiber_info", "read what the library knows of a fiber"),
    (r"fiber_backtrace", "store the frames of a fiber"),
    (r"fiber_each", "visit all fibers"),
    (r"fiber_stats", "read the counters of a cord"),
    (r"fiber_cord_stats", "read the counters of a cord of any thread"),
    (r"fiber_pool_stats", "read the counters of a pool"),
    (r"fiber_backend_name", "the backend that performs the I/O"),
    (r"fiber_sim_pick", "a number that the simulation chooses"),
    (r"fiber_features", "the backends that the library was built with"),
    (r"fiber_dump", "write the state of all fibers"),
    (r"fiber_metrics_write", "write the figures of cords, fibers and pools for a monitoring system"),
    (r"fiber_agent_\w+", "let fiberrt-top look at the process"),
    (r"fiber_dump_as", "write the state and the stacks of all fibers, as text or JSON"),
    (r"fiber_dump_\w+_?signal", "write dumps when a signal comes, and ask running fibers for their frames"),
    (r"fiber_record_creation", "record where fibers are created"),
    (r"fiber_trace_(start|stop|stats)", "trace the process"),
    (r"fiber_trace_(begin|end|counter)", "slices and counters of the program in a trace"),
    (r"fiber_report_overflows", "report overflows of fibers' stacks"),
    (r"fiber_watchdog_\w+", "report fibers that keep their thread"),
    (r"fiberrt_dl_\w+", "load libfiberrt at run time"),
    (r"FIBERRT_DL_WITH_TIMEOUT", "a block with a deadline, where libfiberrt is loaded at run time"),
    (r"fiber_attr_\w+", "attributes of a fiber to be made"),
    (r"fiber_(new|spawn(_attr)?|start)", "make a fiber, and let it run"),
    (r"fiber_(join|await)(_timeout)?", "wait until a fiber has ended"),
    (r"fiber_(set_)?name", "the name of a fiber"),
    (r"fiber_(yield|wakeup)(_timeout|_value)?",
     "park until a wakeup (other systems' yield is fiber_reschedule), and wake a fiber"),
    (r"fiber_reschedule(_if_due)?", "let the other fibers run (other systems call this yield)"),
    (r"fiber_transfer(rer)?", "switch directly to a fiber"),
    (r"fiber_noswitch_(enter|leave)", "sections in which no call switches"),
    (r"fiber_here", "whether the caller may wait as a fiber"),
    (r"fiber_posix_\w+", "let unmodified libraries wait as fibers"),
    (r"fiber_cancel(led)?", "cancel a fiber"),
    (r"fiber_interrupt(ed)?", "end one wait of a fiber"),
    (r"fiber_scope_(open|cancel|set_timeout|close)", "scopes: deadlines and cancels for the calls between"),
    (r"fiber_scope_(spawn(_attr)?|next)", "fibers that end before their scope does"),
    (r"FIBER_WITH_TIMEOUT|fiber_timeout_block_\w+", "a block with a deadline"),
    (r"fiber_cord_attr_\w+", "attributes of a cord to be started"),
    (r"fiber_cord_join(_timeout)?", "wait until a cord has ended"),
    (r"fiber_cord_(self|name)", "the handle and the name of a cord"),
    (r"fiber_pool_attr_\w+", "attributes of a pool to be made"),
    (r"fiber_pool_(create|close)", "make and end a pool of threads"),
    (r"fiber_pool_submit(_flags)?", "give a pool a task"),
    (r"fiber_pool_(un)?bind", "let a thread work for a pool"),
    (r"fiber_cord_(fd|run|next_deadline)", "run fibers inside another event loop"),
    (r"fiber_key_\w+", "values of a fiber's own"),
    (r"fiber_chan_\w+", "channels"),
    (r"fiber_(p?read|p?write|readv|writev)", "read and write"),
    (r"fiber_(recv|send)(?!_)\w*", "receive and send"),
    (r"fiber_accept4?", "accept a connection"),
    (r"fiber_open(at2)?", "open a file"),
    (r"fiber_f(data)?sync", "wait until a file is on stable storage"),
    (r"fiber_rename(at2)?", "give a file another name"),
    (r"fiber_(unlink(at)?|rmdir)", "remove a name"),
    (r"fiber_mkdir(at)?", "make a directory"),
    (r"fiber_(send|recv)_fds", "descriptors through a unix socket"),
    (r"fiber_process_attr_\w+", "attributes of a process to be spawned"),
    (r"fiber_process_wait|fiber_waitpid", "wait until a child process has ended"),
    (r"fiber_offload(_\w+)?", "call blocking code on another thread"),
    (r"fiber_tag_[sg]et", "the tag by which hooks know a fiber"),
    (r"fiber_hosted_\w+", "fibers without a stack"),
    (r"fiber_op_start|fiber_ops_\w+", "operations of hosted fibers"),
)

# The pages of section 7, of what the header says about several functions, where the section's title is no name.
TOPICS = {
    "Inside another event loop": "fiberrt-embedding",
    "Fiber-local values": "fiberrt-keys",
    "Locks and other primitives": "fiberrt-locks",
    "Input and output": "fiberrt-io",
    "Child processes": "fiberrt-processes",
    "Names and blocking code": "fiberrt-offload",
    "Hosted fibers": "fiberrt-hosted",
    "Loading at run time": "fiberrt-dl",
}

# What an error means where the header names it alone.
PLAIN = {
    "-ENOMEM": "there is no memory",
    "-EMFILE": "the process may have no more descriptors",
    "-ENFILE": "the system has no more descriptors",
    "-ENOSPC": "there is no room on the device, or none of epoll's watches is left",
    "-EAGAIN": "a resource that it needs is not available now",
    "-ETIMEDOUT": "the time has passed",
}


EXAMPLE = re.compile(r"^( *)/\* EXAMPLE ([\w, ]+): (.*?) \*/\n(.*?)\n *\/\* END \*/$", re.M | re.S)


def read_examples():
    """The examples in the folder examples, by the name of each function after EXAMPLE: (sentences, lines of code)."""
    examples = {}
    for path in sorted((Path(__file__).resolve().parent / "examples").glob("*.c")):
        source = path.read_text(encoding="utf-8")
        found = EXAMPLE.findall(source)
        if len(found) != source.count("/* EXAMPLE ") or len(found) != source.count("/* END */"):
            raise ValueError(f"{path.name}: an EXAMPLE without its END, or without a sentence")
        for _, functions, text, code in found:
            sentences = " ".join(line.strip().removeprefix("*").strip() for line in text.split("\n"))
            for name in functions.split(", "):
                if name in examples:
                    raise ValueError(f"{path.name}: a second example of {name}")
                examples[name] = (sentences, textwrap.dedent(code).split("\n"))
    return examples


def plural(text):
    """Of "a semaphore" or "an event"."""
    noun = re.sub(r"^an? ", "", text)
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")


class Names:
    """What is known by name, and the page on which it is told."""

    def __init__(self, header):
        self.examples = read_examples()  # by the name of a function: (sentences, lines)
        self.pages = {}  # of functions: the page's name
        in_place = {name.removesuffix("t"): plural(behind) for block in header.blocks
                    for kind, name, text, behind in block.items if kind == "type" and "opaque[" in text and behind}
        self.groups = {}  # by the page's name: (what it is about, [functions])
        # A macro names the page of the functions that it calls.
        for function in sorted(header.functions, key=lambda function: not function.macro):
            about = next((about for pattern, about in GROUPS if re.fullmatch(pattern, function.name)), None)
            if not about:
                about = next((of for prefix, of in in_place.items() if function.name.startswith(prefix)), None)
            key = about or function.name
            page = next((name for name, (of, _) in self.groups.items() if of == key), function.name)
            self.groups.setdefault(page, (key, []))[1].append(function)
            self.pages[function.name] = page
        self.types, self.constants = {}, {}
        for block in header.blocks:
            for kind, name, _, _ in block.items:
                (self.types if kind == "type" else self.constants)[name] = block
        self.topics = {section.title: TOPICS.get(section.title, "fiberrt-" + section.title.lower().replace(" ", "-"))
                       for section in header.sections if section.intro}
        unknown = sorted(set(self.examples) - set(self.pages))
        if unknown:
            raise ValueError(f"the example of {unknown[0]} has no page")

    def link_sections(self, text):
        """"Forks" in quotation marks is the page about that."""
        for title, page in self.topics.items():
            text = text.replace(f'"{title}"', f"{page}(7)")
        return text.replace("docs/simulation.md", "fiberrt-sim(1)")


def date():
    """Of the build, or of the sources if who builds says so: the same text from the same sources."""
    when = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc) if when else datetime.datetime.now()
    return f"{day:%B} {day.day}, {day.year}"


def words_of(lines):
    return set(re.findall(r"\w+", " ".join(lines)))


def begin(writer, title, section, names, about, version):
    writer.lines.append('.\\" SPDX-License-Identifier: MIT OR Apache-2.0')
    writer.lines.append('.\\" Made from include/fiberrt.h by docs/manual/manual.py: edit that.')
    writer.macro("Dd", date())
    writer.macro("Dt", title.upper(), section)
    writer.macro("Os", "libfiberrt", version)
    writer.heading("NAME")
    for name in names[:-1]:
        writer.macro("Nm", name, ",")
    writer.macro("Nm", names[-1])
    writer.macro("Nd", about)


def first_sentence(function):
    """For the line under NAME: as short as the header has it, without a capital or a full stop."""
    text = " ".join(function.text).strip()
    text = re.split(r"(?<=[a-z0-9)])[.:;](?:\s|$)", text)[0]
    text = re.sub(r"^(\w+\(\d\)): ", "", text)
    return text[0].lower() + text[1:] if not text.startswith("I/O") else text


@functools.cache
def type_words(function):
    return words_of([declaration for declaration, _ in function.parameters] + [function.returns])


@functools.cache
def text_words(function):
    return words_of(function.text + list(function.own.values()))


@functools.cache
def related_blocks(functions, header):
    """The types and constants that these functions speak of, in the header's order; and what those are made of."""
    types = set().union(*(type_words(function) for function in functions))
    for block in reversed(header.blocks):  # and what their members are
        if types & set(block.names()) and block.section is not None:
            types |= words_of([text for kind, _, text, _ in block.items if kind == "type"])
    words = set().union(*(text_words(function) for function in functions))
    found = []
    for block in header.blocks:
        names = set(block.names())
        if block.section is None:
            names = {name for name in names if name in GENERAL_ON_PAGES}
        spoken_of = words_of(block.comment) & {function.name for function in functions}
        # FIBER_PROCESS_* names all of them.
        if block.items[0][0] == "type":
            found += [block] if names & types else []
            continue
        if names & words or any(re.sub(r"_[A-Z0-9]+$", "_", name) in words for name in names) or names and spoken_of:
            found.append(block)
    return found


# Of what is at the head of the header, what is told again where it is used.
GENERAL_ON_PAGES = ("FIBER_STACK_MIN", "FIBER_GUARD_REQUIRE", "FIBER_GUARD_SIZE_DEFAULT", "FIBER_NAME_MAX")


def write_block(writer, block, only=None):
    """`only`: the words of a page that is not about the block's other types."""
    whole = len(block.items) == 1 and block.items[0][0] == "type" and "\n" in block.items[0][2]
    items = [item for item in block.items if whole or item[0] != "type" or only is None or item[1] in only]
    if not items:
        return
    if block.comment:
        writer.macro("Pp")
        writer.comment(block.comment)
    if whole:
        writer.code(block.items[0][2].split("\n"))
        return
    writer.macro("Bl", "-tag", "-width", "Ds")
    for kind, name, text, behind in items:
        writer.macro("It", *(constant(text) if kind == "macro" else ("Vt", argument(name))))
        if behind:
            writer.flow(fragment(behind))
    writer.macro("El")


def constant(text):
    """A constant's name and what it stands for."""
    name, value = re.match(r"#define (\w+(?:\([^)]*\))?)\s*(.*)$", text, re.S).groups()
    plain = re.fullmatch(r"\(?(?:\((?:size_t|uint64_t)\))?\(?(-?\d+)u?(?: << (\d+))?\)?\)?", value)
    if plain:
        value = str(int(plain.group(1)) << int(plain.group(2) or 0))
    return "Dv", argument(name), "No", "=", argument(value)


def fragment(text):
    """What stands in a list: with a full stop only if it is sentences."""
    text = text.rstrip(".;")
    return text + "." if re.search(r"[.;] ", text) and not text.endswith(".)") else text


def write_errors(writer, function):
    """The list of what one function returns below zero, without what all of its page do."""
    told = []
    for names, text in split_errors(function.fields.get("Errors", "")):
        if names:
            text = text or next((PLAIN[name] for name in names if name in PLAIN), "")
            writer_items = " , ".join(f"Er \\{name}" for name in names)
            told.append((writer_items, text))
        elif not re.match(r"(those of a handle|(none but )?(only )?those of (every|opening))", text):
            told.append((None, text))
    listed = [item for item in told if item[0]]
    for _, text in (item for item in told if not item[0]):
        writer.macro("Pp")
        writer.flow(f"Those of {text[3:]}." if text.startswith("as ") else f"{text[0].upper()}{text[1:].rstrip('…')}.")
    if listed:
        writer.macro("Bl", "-tag", "-width", "Er")
        for items, text in listed:
            writer.macro("It", items)
            if text:
                writer.flow(fragment(text))
        writer.macro("El")
    if not told:
        writer.macro("Pp")
        writer.flow("None of its own." if function.fields.get("Errors") != "" or function.section.defaults else "None.")


def write_page(name, header, names):
    about, functions = names.groups[name]
    if about == functions[0].name:
        about = first_sentence(functions[0])
    parameters = [parameter for function in functions for _, parameter in function.parameters]
    writer = Writer(names, (name, "3"), parameters)
    version = header.version
    begin(writer, name, "3", [function.name for function in functions], about, version)
    writer.heading("LIBRARY")
    linked = functions[0].section.include == "fiberrt.h"
    writer.lines.append("libfiberrt (-lfiberrt)" if linked else "libfiberrt, which the program is not linked with")
    writer.heading("SYNOPSIS")
    writer.macro("In", functions[0].section.include)
    for function in functions:
        if function.macro:
            names_of = ", ".join(parameter for parameter, _ in function.parameters)
            writer.code([f"{function.name}({names_of}) {{ ... }}"])
            continue
        writer.macro("Ft", argument(function.returns))
        writer.macro("Fo", function.name)
        for declaration, _ in function.parameters or [("void", "")]:
            writer.macro("Fa", argument(declaration))
        writer.macro("Fc")
    writer.heading("DESCRIPTION")
    notes = []
    for function in functions:
        if function.note and function.note not in notes:
            notes.append(function.note)
    for note in notes:
        writer.comment(note, first=note is notes[0])
    alone = len(functions) == 1
    for function in functions:
        if not alone:
            writer.macro("Ss", f"Fn {function.name}")
        writer.comment(function.text, first=not (alone and notes))
        writer.macro("Pp")
        writer.flow(f"Where: {function.fields.get('Where', '?')}.")
        writer.flow(f"Switches: {function.fields.get('Switches', '?')}.")
    blocks = [block for block in related_blocks(tuple(functions), header) if home(block, names, header) == name
              or block.section is None or len(block.items) <= 6]
    if blocks:
        writer.macro("Ss", "Types and constants")
        for block in blocks:
            write_block(writer, block, set().union(*(type_words(function) for function in functions)))
    write_results(writer, functions)
    write_examples(writer, functions, names)
    write_all_errors(writer, functions, names)
    see_also(writer, name, functions, names)
    writer.heading("HISTORY")
    since = sorted({function.fields.get("Since", "?") for function in functions})
    for release in since:
        new = [function.name for function in functions if function.fields.get("Since", "?") == release]
        which_ones = "These have" if len(since) == 1 and len(new) > 1 else ", ".join(new) + (
            " has" if len(new) == 1 else " have")
        writer.flow(f"{which_ones} been in libfiberrt since release {release}.")
    return tidy(writer.lines)


def tidy(lines):
    """Without the marks of paragraphs that mdoc has no use for: beside headings and lists."""
    out = []
    for line in lines:
        if re.match(r"\.(Sh|Ss|Bl|Bd)\b", line) and out and out[-1] == ".Pp":
            out.pop()
        if line == ".Pp" and (not out or re.match(r"\.(Sh|Ss|Pp)\b", out[-1])):
            continue
        out.append(line)
    while out and out[-1] in ("", ".Pp"):
        out.pop()
    return out


def home(block, names, header, of=None):
    """The page on which a large block of constants, or a type of the block, stands: the first that speaks of it."""
    for page, (_, functions) in names.groups.items():
        if of in names.types:
            if any(of in type_words(function) for function in functions):
                return page
        elif block in related_blocks(tuple(functions), header):
            return page
    return None


def with_errors(functions):
    return [function for function in functions if function.returns in ("int", "int64_t")]


def write_results(writer, functions):
    writer.heading("RETURN VALUES")
    numbers = with_errors(functions)
    if numbers:
        if len(numbers) == len(functions):
            writer.flow("Zero or more is success; less than zero is an error, -E… as in <errno.h>. errno is not set.")
        else:
            writer.flow(", ".join(function.name for function in numbers) + ": zero or more is success; less than zero "
                        "is an error, -E… as in <errno.h>. errno is not set.")
        writer.flow("The description gives the result of a success.")
    else:
        writer.flow("The description gives the result.")


def write_examples(writer, functions, names):
    examples = [names.examples[function.name] for function in functions if function.name in names.examples]
    if examples:
        writer.heading("EXAMPLES")
    for sentences, code in examples:
        writer.macro("Pp")
        writer.flow(sentences)
        writer.code(code)


def write_all_errors(writer, functions, names):
    numbers = with_errors(functions)
    if not numbers:
        return
    writer.heading("ERRORS")
    general(writer, numbers, len(numbers) == len(functions), names)
    for function in numbers:
        if len(functions) > 1:
            writer.macro("Ss", f"Fn {function.name}")
        if re.match(r"none\b", function.fields.get("Errors", "")):
            writer.flow("None.")
            continue
        write_errors(writer, function)


def which(chosen, functions, whole=True):
    """The subject of a sentence about some of a page's functions; `whole` if these are all of the page."""
    if whole and len(chosen) == len(functions):
        return "It" if len(functions) == 1 else "All of them"
    names = [function.name for function in chosen]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def general(writer, functions, whole, names):
    """What many functions return alike, told once for the page."""
    def say(chosen, what):
        writer.macro("Pp")
        writer.flow(f"{which(chosen, functions, whole)} can return{what}")

    section = functions[0].section
    errors = section.defaults.get("Errors") if section else None
    if errors:
        listed = [item for item in split_errors(errors) if item[0]]
        if names.topics.get(section.title) == "fiberrt-io":
            say(functions, " the errors that POSIX has for this, and those that fiberrt-io(7) lists.")
        elif listed:
            say(functions, "")
            writer.macro("Bl", "-tag", "-width", "Er")
            for errnos, text in listed:
                writer.macro("It", " , ".join(f"Er \\{name}" for name in errnos))
                writer.flow(fragment(text))
            writer.macro("El")
    handles = [function for function in functions if function.takes_handle()]
    if handles:
        say(handles, f", of the handle that {'it is' if len(handles) == 1 else 'they are'} given,")
        writer.macro("Bl", "-tag", "-width", "Er")
        writer.macro("It", "Er \\-EINVAL")
        writer.flow("it is zero, of another type, or was never given out")
        writer.macro("It", "Er \\-ESRCH")
        writer.flow("its target is gone")
        writer.macro("El")
    steady = [function for function in functions
              if "a cancelled fiber may call it" in function.fields.get("Switches", "")]
    if steady:
        say(steady, " -EPERM inside a no-switch section.")
    switching = [function for function in functions if function.may_switch() and function not in steady]
    if switching:
        say(switching, " what every call that switches can: -EPERM inside a no-switch section, -ECANCELED, -EINTR and "
            "-ETIMEDOUT of the calling fiber, and of a main flow -EDEADLK; see fiberrt(7).")
    cord = [function for function in functions if re.match(r"a fiber|the main flow", function.fields.get("Where", ""))]
    if cord:
        say(cord, " -ENOMEM if the thread has no cord and none can be opened, and in a simulation -ENOTSUP on any "
            "thread but the first.")


def see_also(writer, name, functions, names):
    writer.heading("SEE ALSO")
    pages = set()
    for function in functions:
        text = " ".join(function.text + list(function.own.values()))
        for word in re.findall(r"\b(?:fiber_\w+|FIBER_WITH_TIMEOUT)\b", text):
            if word in names.pages and names.pages[word] != name:
                pages.add(names.pages[word])
    links = [(page, "3") for page in sorted(pages)]
    topic = names.topics.get(functions[0].section.title) if functions[0].section else None
    links += [(topic, "7")] if topic else []
    links.append(("fiberrt", "7"))
    links.sort(key=lambda link: (link[1], link[0].lower()))
    for at, (page, section) in enumerate(links):
        writer.macro("Xr", page, section, *([","] if at + 1 < len(links) else []))


def write_topic(section, header, names):
    """The page of section 7 for what the header says at the beginning of one of its sections."""
    name = names.topics[section.title]
    functions = [function for function in header.functions if function.section is section]
    writer = Writer(names, (name, "7"))
    begin(writer, name, "7", [name], "libfiberrt: " + section.title.lower(), header.version)
    writer.heading("SYNOPSIS")
    writer.macro("In", section.include)
    writer.heading("DESCRIPTION")
    writer.comment(section.intro, first=True)
    notes = []
    for function in functions:
        if function.note and function.note not in notes:
            notes.append(function.note)
    for note in notes:
        writer.comment(note)
    blocks = [block for block in header.blocks if block.section is section]
    if blocks:
        writer.heading("TYPES AND CONSTANTS")
        for block in blocks:
            write_block(writer, block)
    writer.heading("FUNCTIONS")
    list_functions(writer, functions, names)
    writer.heading("SEE ALSO")
    writer.macro("Xr", "fiberrt", "7")
    return tidy(writer.lines)


def list_functions(writer, functions, names):
    writer.macro("Bl", "-tag", "-width", "Ds", "-compact")
    pages = []
    for function in functions:
        page = names.pages[function.name]
        if page not in pages:
            pages.append(page)
    for page in pages:
        about, members = names.groups[page]
        writer.macro("It", " , ".join(f"Xr {member.name} 3" for member in members))
        writer.flow(first_sentence(members[0]) if about == members[0].name else about)
    writer.macro("El")


# --- fiberrt(7) and section 1: text beside this file, with places for what the header says ---------------------------


def write_text(source, name, section, header, names):
    """A page that is written by hand. Of its own lines are
    @omit FIRST WORDS      the same, but it is left out, since the page says it by itself
    @head FIRST WORDS      the paragraph of the header's comment that begins so, and those after it up to the next one
                           that is named
    @types                 the types and constants at the head of the header
    @functions             all functions, by section
    @date, @version        in .Dd and .Os."""
    paragraphs = [[]]
    for line in header.head:
        if line.strip():
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    wanted = re.findall(r"^@(?:head|omit) (.*)$", source, re.M)
    of, current, missing = {}, None, []
    for paragraph in paragraphs:
        start = next((words for words in wanted if paragraph and paragraph[0].startswith(words)), None)
        current = start or current
        if current:
            of.setdefault(current, []).append(paragraph)
        elif wanted and paragraph:
            missing.append(paragraph[0])
    writer = Writer(names, (name, section))
    for line in source.split("\n"):
        if line.startswith("@head "):
            found = of.get(line[6:])
            if not found:
                raise ValueError(f"{name}.{section}: the header's comment has no paragraph that begins: {line[6:]}")
            for paragraph in found:
                heading = re.match(r"\.Ss (.*)$", writer.lines[-1])
                first = paragraph[0]
                if heading and first.startswith(heading.group(1) + ". "):
                    first = first[len(heading.group(1)) + 2 :]
                writer.comment([first] + paragraph[1:])
        elif line.startswith("@omit "):
            pass
        elif line == "@types":
            for block in header.blocks:
                if block.section is None:
                    write_block(writer, block)
        elif line == "@functions":
            for part in header.sections:
                functions = [function for function in header.functions if function.section is part]
                writer.macro("Ss", part.title)
                if part.title in names.topics:
                    writer.macro("Pp")
                    writer.flow(f"See {names.topics[part.title]}(7).")
                list_functions(writer, functions, names)
        elif line.startswith("@"):
            raise ValueError(f"{name}.{section}: {line} is not understood")
        else:
            writer.lines.append(line.replace("@date@", date()).replace("@version@", header.version))
    if missing:
        raise ValueError(f"{name}.{section}: a paragraph of the header's comment has no place: {missing[0]}")
    return tidy(writer.lines)
