/* SPDX-License-Identifier: MIT OR Apache-2.0
 * An extension module that blocks in C, for test_native.py: with the GIL released or held, with an exception set, while
 * it calls Python, and in a finalizer. test_native.py compiles it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#ifndef MODULE
#define MODULE native_waits
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define JOINED_OF(start, name) start##name
#define JOINED(start, name) JOINED_OF(start, name)

static PyObject* result_of_read(char byte, ssize_t count, int error) {
    if (count >= 0) return PyBytes_FromStringAndSize(&byte, count);
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject* read_one(PyObject* self, PyObject* args) {
    (void)self;
    int fd;
    if (!PyArg_ParseTuple(args, "i", &fd)) return NULL;
    char byte;
    ssize_t count;
    int error;
    Py_BEGIN_ALLOW_THREADS count = read(fd, &byte, 1);
    error = errno;
    Py_END_ALLOW_THREADS return result_of_read(byte, count, error);
}

static PyObject* read_one_with_gil(PyObject* self, PyObject* args) {
    (void)self;
    int fd;
    if (!PyArg_ParseTuple(args, "i", &fd)) return NULL;
    char byte;
    ssize_t count = read(fd, &byte, 1);
    return result_of_read(byte, count, errno);
}

/* Reads with an exception set, and raises it. */
static PyObject* read_and_raise(PyObject* self, PyObject* args) {
    (void)self;
    int fd;
    if (!PyArg_ParseTuple(args, "i", &fd)) return NULL;
    char byte = 0;
    PyErr_Format(PyExc_KeyError, "set before the read of %d", fd);
    Py_BEGIN_ALLOW_THREADS if (read(fd, &byte, 1) < 0) byte = '!';
    Py_END_ALLOW_THREADS return NULL;
}

/* poll(fd, events, milliseconds): the result, errno and the events found. */
static PyObject* poll_one(PyObject* self, PyObject* args) {
    (void)self;
    int fd, events, timeout, result, error;
    if (!PyArg_ParseTuple(args, "iii", &fd, &events, &timeout)) return NULL;
    struct pollfd entry = {fd, (short)events, 0};
    Py_BEGIN_ALLOW_THREADS errno = 0;
    result = poll(&entry, 1, timeout);
    error = errno;
    Py_END_ALLOW_THREADS return Py_BuildValue("iii", result, error, entry.revents);
}

static PyObject* sleep_for(PyObject* self, PyObject* args) {
    (void)self;
    double seconds;
    if (!PyArg_ParseTuple(args, "d", &seconds)) return NULL;
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int result;
    Py_BEGIN_ALLOW_THREADS result = nanosleep(&time, NULL) ? errno : 0;
    Py_END_ALLOW_THREADS return PyLong_FromLong(result);
}

/* callback(function, fd): releases the GIL, reads a byte, calls the function with the GIL, as libraries call back, reads
 * another byte, and returns the function's result and both bytes. */
static PyObject* callback(PyObject* self, PyObject* args) {
    (void)self;
    PyObject *function, *got = NULL;
    int fd, by_thread_state;
    if (!PyArg_ParseTuple(args, "Oip", &function, &fd, &by_thread_state)) return NULL;
    char bytes[2] = "??";
    ssize_t count = 0;
    PyThreadState* state = PyEval_SaveThread();
    count += read(fd, &bytes[0], 1);
    if (by_thread_state) {
        PyEval_AcquireThread(state);
        got = PyObject_CallNoArgs(function);
        PyEval_ReleaseThread(state);
    } else {
        PyGILState_STATE gil = PyGILState_Ensure();
        got = PyObject_CallNoArgs(function);
        PyGILState_Release(gil);
    }
    count += read(fd, &bytes[1], 1);
    PyEval_RestoreThread(state);
    return got ? Py_BuildValue("(Ny#)", got, bytes, (Py_ssize_t)count) : NULL;
}

/* An object whose finalizer waits for a byte. */
typedef struct {
    PyObject_HEAD int fd;
} Reader;

static int reader_init(PyObject* self, PyObject* args, PyObject* names) {
    (void)names;
    return PyArg_ParseTuple(args, "i", &((Reader*)self)->fd) ? 0 : -1;
}

static void reader_free(PyObject* self) {
    char byte = 0;
    Py_BEGIN_ALLOW_THREADS if (read(((Reader*)self)->fd, &byte, 1) < 0) byte = '!';
    Py_END_ALLOW_THREADS Py_TYPE(self)->tp_free(self);
}

static PyTypeObject ReaderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = TEXT(MODULE) ".Reader",
    .tp_basicsize = sizeof(Reader),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = reader_init,
    .tp_dealloc = reader_free,
};

static PyMethodDef functions[] = {
    {"read", read_one, METH_VARARGS, NULL},
    {"read_with_gil", read_one_with_gil, METH_VARARGS, NULL},
    {"read_and_raise", read_and_raise, METH_VARARGS, NULL},
    {"poll", poll_one, METH_VARARGS, NULL},
    {"sleep", sleep_for, METH_VARARGS, NULL},
    {"callback", callback, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(MODULE), NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC JOINED(PyInit_, MODULE)(void) {
    PyObject* module = PyModule_Create(&definition);
    if (!module || PyType_Ready(&ReaderType) < 0) return NULL;
    return PyModule_AddObjectRef(module, "Reader", (PyObject*)&ReaderType) < 0 ? NULL : module;
}
