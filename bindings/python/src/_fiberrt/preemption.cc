// SPDX-License-Identifier: MIT OR Apache-2.0
// Preemptions, for fiberrt.testing: in a simulation, fibers stand for threads, and a thread may lose the processor
// between any two instructions. So at certain points of a program, and before its lines or bytecode instructions, the
// simulation may choose that the other fibers run.
#include "functions.h"
#include "waiting.h"

namespace fiberrt_python {

namespace {

// How often the simulation chooses to preempt at a kind of place.
struct Rate {
    uint32_t one_in = 0; // 0: there is no choice
    int64_t left = 0;    // preemptions; a list of choices may make more

    // Returns for how long the fiber is preempted: 0 not at all, 1, or 2 longer. Without preemptions left there is still
    // a choice, so that the positions of later choices do not depend on it.
    int64_t picks() {
        if (!one_in) return 0;
        int64_t picked = fiber_sim_pick(3, left > 0 ? one_in : UINT32_MAX);
        if (picked > 0) left--;
        return picked;
    }
};

Rate at_points, at_lines;
bool on;
bool by_instruction;
PyObject* is_program;      // is_program(code): whether the lines of this code are traced
PyObject* before_line;     // before_line(frame, goes_on), or null
PyObject* raised;          // raised(frame, exception), or null
PyObject* preempted;       // preempted(): called by the fiber that is preempted, before the others run; or null
PyObject* debugger;        // the program's own trace function, as for sys.settrace(), or null
Py_ssize_t code_slot = -1; // of each code object: what is_program() said

// What code_slot contains. The interpreter's default is null.
void* const program = reinterpret_cast<void*>(1);
void* const library = reinterpret_cast<void*>(2);

#if PY_VERSION_HEX < 0x030C0000
Py_ssize_t new_code_slot() { return _PyEval_RequestCodeExtraIndex(nullptr); }
int get_slot(PyObject* code, void** value) { return _PyCode_GetExtra(code, code_slot, value); }
int set_slot(PyObject* code, void* value) { return _PyCode_SetExtra(code, code_slot, value); }
#else
Py_ssize_t new_code_slot() { return PyUnstable_Eval_RequestCodeExtraIndex(nullptr); }
int get_slot(PyObject* code, void** value) { return PyUnstable_Code_GetExtra(code, code_slot, value); }
int set_slot(PyObject* code, void* value) { return PyUnstable_Code_SetExtra(code, code_slot, value); }
#endif

// For so long a preempted fiber does not run. The time is simulated, so the others run until they wait, and timers of
// about the same time fire. A machine with much to do keeps threads from running for about so long, too. Of two
// fibers that are preempted one after the other, either may go on first.
constexpr int64_t away_ns[] = {0, FIBER_MSEC(1), FIBER_MSEC(3)};

// Lets the other fibers run. Returns false with an exception set: one was thrown into this fiber, or preempted() raised it.
bool give_way(int64_t picked) {
    if (preempted) {
        PyObject* done = PyObject_CallNoArgs(preempted);
        if (!done) return false;
        Py_DECREF(done);
    }
    WaitsFor reason("preempted");
    this_world->turns++;
    fiber_scope_t scope; // a cancel or a time limit is for the fiber's own waits
    if (fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD) != 0) return true;
    int result = fiber_sleep(away_ns[picked]);
    fiber_scope_close(scope, nullptr);
    if (result != -EINTR) return true; // -EPERM: it may not switch here
    return settle(result) != Settled::raised;
}

bool others_live() { return this_world && this_world->live_count && in_own_frames(this_world); }

PyObject* preemption_point(PyObject*, PyObject*) {
    // A trace function's own calls of locks must not change the run, so that it can be debugged.
    if (!on || !others_live() || PyThreadState_Get()->tracing) Py_RETURN_NONE;
    int64_t picked = at_points.picks();
    if (picked > 0 && !give_way(picked)) return nullptr;
    Py_RETURN_NONE;
}

// Returns 1 if the code is the program's, 0 if not, -1 with an exception set.
int is_of_program(PyObject* code) {
    void* known = nullptr;
    if (get_slot(code, &known) < 0) return -1;
    if (!known) {
        PyObject* answer = PyObject_CallOneArg(is_program, code);
        int truth = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        if (truth < 0) return -1;
        known = truth ? program : library;
        if (set_slot(code, known) < 0) return -1;
    }
    return known == program;
}

// Calls the program's own trace function, as sys.settrace() would have it called. Returns -1 with an exception set.
int call_debugger(PyObject* frame, int what, PyObject* argument) {
    static const char* const names[] = {"call", "exception", "line", "return", nullptr, nullptr, nullptr, "opcode"};
    const char* name = what >= 0 && what < 8 ? names[what] : nullptr;
    if (!name) return 0;
    PyObject* function = what == PyTrace_CALL ? Py_NewRef(debugger) : PyObject_GetAttrString(frame, "f_trace");
    if (!function) return -1;
    int error = 0;
    if (function != Py_None) {
        PyObject* next = PyObject_CallFunction(function, "OsO", frame, name, argument ? argument : Py_None);
        if (!next) {
            Py_CLEAR(debugger);
            error = -1;
        } else if (what == PyTrace_CALL || next != Py_None) {
            error = PyObject_SetAttrString(frame, "f_trace", next);
        }
        Py_XDECREF(next);
    }
    Py_DECREF(function);
    return error;
}

// Calls before_line() or raised(). Returns -1 with an exception set.
int report(PyObject* function, PyFrameObject* frame, PyObject* argument) {
    PyObject* done = PyObject_CallFunctionObjArgs(function, frame, argument, nullptr);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// An exception event's argument is the tuple (type, value, traceback).
int report_exception(PyFrameObject* frame, PyObject* argument) {
    if (!argument || !PyTuple_Check(argument) || PyTuple_GET_SIZE(argument) != 3) return 0;
    return report(raised, frame, PyTuple_GET_ITEM(argument, 1));
}

PyObject* nothing(PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_NONE; }

// Asks for an event before each instruction of a frame. Since Python 3.13, there are none if f_trace is None; a debugger
// may have set it. Returns -1 with an exception set.
int trace_instructions(PyObject* frame) {
    if (PyObject_SetAttrString(frame, "f_trace_opcodes", Py_True) < 0) return -1;
    static PyMethodDef method = {"nothing", as_method(nothing), METH_FASTCALL, nullptr};
    static PyObject* function = PyCFunction_New(&method, nullptr);
    PyObject* before = function ? PyObject_GetAttrString(frame, "f_trace") : nullptr;
    int error = before ? 0 : -1;
    if (before == Py_None) error = PyObject_SetAttrString(frame, "f_trace", function);
    Py_XDECREF(before);
    return error;
}

int trace(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
    if (debugger && call_debugger(reinterpret_cast<PyObject*>(frame), what, argument) < 0) return -1;
    bool begins = what == PyTrace_CALL && by_instruction;
    bool fails = what == PyTrace_EXCEPTION && raised;
    if (!begins && !fails && what != PyTrace_LINE && what != PyTrace_OPCODE) return 0;
    PyCodeObject* code = PyFrame_GetCode(frame);
    int own = is_of_program(reinterpret_cast<PyObject*>(code));
    Py_DECREF(code);
    if (own <= 0) return own;
    if (begins) return trace_instructions(reinterpret_cast<PyObject*>(frame));
    if (fails) return report_exception(frame, argument);
    int64_t picked = on && others_live() ? at_lines.picks() : 0;
    if (picked > 0 && !give_way(picked)) return -1;
    if (before_line && (what == PyTrace_LINE || picked > 0))
        return report(before_line, frame, what == PyTrace_LINE ? Py_False : Py_True);
    return 0;
}

PyObject* preempt(PyObject*, PyObject* args) {
    unsigned points_one_in, lines_one_in;
    long long points_most, lines_most;
    if (!PyArg_ParseTuple(args, "ILIL", &points_one_in, &points_most, &lines_one_in, &lines_most)) return nullptr;
    at_points = {points_one_in, points_most};
    at_lines = {lines_one_in, lines_most};
    on = true;
    Py_RETURN_NONE;
}

PyObject* trace_lines(PyObject*, PyObject* args) {
    PyObject *judge, *call, *tell_error;
    int instructions;
    if (!PyArg_ParseTuple(args, "OOOp", &judge, &call, &tell_error, &instructions)) return nullptr;
    if (code_slot < 0) code_slot = new_code_slot();
    if (code_slot < 0) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no room for another property of code objects");
        return nullptr;
    }
    Py_XSETREF(is_program, Py_NewRef(judge));
    Py_XSETREF(before_line, call == Py_None ? nullptr : Py_NewRef(call));
    Py_XSETREF(raised, tell_error == Py_None ? nullptr : Py_NewRef(tell_error));
    by_instruction = instructions;
    // Python 3.12 looks only here whether any frame wants events of instructions.
    auto* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
    if (instructions && frame && PyObject_SetAttrString(frame, "f_trace_opcodes", Py_True) < 0) return nullptr;
    PyEval_SetTrace(trace, nullptr);
    if (instructions && frame && PyObject_SetAttrString(frame, "f_trace_opcodes", Py_False) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* on_preemption(PyObject*, PyObject* function) {
    Py_XSETREF(preempted, function == Py_None ? nullptr : Py_NewRef(function));
    Py_RETURN_NONE;
}

PyObject* debug(PyObject*, PyObject* function) {
    Py_XSETREF(debugger, function == Py_None ? nullptr : Py_NewRef(function));
    Py_RETURN_NONE;
}

PyObject* stop_preempting(PyObject*, PyObject*) {
    on = false;
    if (is_program) PyEval_SetTrace(nullptr, nullptr);
    Py_RETURN_NONE;
}

PyObject* sim_pick(PyObject*, PyObject* args) {
    unsigned count, one_in = 0;
    if (!PyArg_ParseTuple(args, "I|I", &count, &one_in)) return nullptr;
    int64_t picked = fiber_sim_pick(count, one_in);
    if (picked == -ENOTSUP) {
        PyErr_SetString(PyExc_RuntimeError, "this thread is not the thread of a simulation");
        return nullptr;
    }
    return picked < 0 ? raise_errno(picked) : PyLong_FromLongLong(picked);
}

PyObject* set_on_refused(PyObject*, PyObject* function) {
    Py_XSETREF(on_refused, function == Py_None ? nullptr : Py_NewRef(function));
    Py_RETURN_NONE;
}

PyObject* waits_for(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "waits_for() takes a Fiber");
    const char* what = reinterpret_cast<FiberObject*>(object)->waits_for;
    if (!what) Py_RETURN_NONE;
    return PyUnicode_FromString(what);
}

} // namespace

PyMethodDef preemption_functions[] = {
    {"preemption_point", preemption_point, METH_NOARGS,
     "preemption_point()\n--\n\nAfter preempt(): the other fibers may run here, if the simulation chooses so. "
     "Otherwise it has no effect."},
    {"preempt", preempt, METH_VARARGS,
     "preempt(points_one_in, points_most, lines_one_in, lines_most, /)\n--\n\nFrom now on, preempt fibers at "
     "preemption points once in so many times and at most so often, and likewise before the lines that trace_lines() "
     "has chosen."},
    {"trace_lines", trace_lines, METH_VARARGS,
     "trace_lines(is_program, before_line, raised, instructions, /)\n--\n\nMake each line of the code for which "
     "is_program(code) is true, or each bytecode instruction, a place where preempt() has an effect. Before each line "
     "of "
     "this code, call before_line(frame, False); when a preempted fiber goes on in the middle of a line, "
     "before_line(frame, True); when an exception passes a frame, raised(frame, exception). None: call nothing. "
     "Replaces "
     "the thread's trace function."},
    {"on_preemption", on_preemption, METH_O,
     "on_preemption(function, /)\n--\n\nCall function() in each fiber that preempt() has chosen, before the other "
     "fibers run. None: call nothing."},
    {"debug", debug, METH_O,
     "debug(function, /)\n--\n\nAfter trace_lines(), instead of sys.settrace(function): both get their events."},
    {"stop_preempting", stop_preempting, METH_NOARGS, "stop_preempting()\n--\n\nUndo preempt() and trace_lines()."},
    {"sim_pick", sim_pick, METH_VARARGS,
     "sim_pick(count, one_in=0, /)\n--\n\nReturn a number below count that the simulation chooses; 0 is the ordinary "
     "one. one_in: the number is not 0 once in so\nmany times. RuntimeError: this thread is not the thread of a "
     "simulation."},
    {"on_refused", set_on_refused, METH_O,
     "on_refused(function, /)\n--\n\nCall function() before each OSError of ENOTSUP: with it, a simulation refuses a "
     "descriptor that other processes may use. None: call nothing."},
    {"waits_for", waits_for, METH_O, "waits_for(fiber, /)\n--\n\nReturn what a fiber waits for, as a word, or None."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
