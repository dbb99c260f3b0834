/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * raw.i - the cold calls of fiberrt.h for Go, from which swig.sh makes raw.go and raw_wrap.c.
 *
 * Every handle is a Go type on uint64, passed by value: no Swigcptr, no memory on C's heap per handle. Results are the
 * library's own, 0 or more, or -errno. Calls made for every turn of a fiber are in hot.go, written by hand. Calls that
 * return a text are in text.go, because SWIG would copy the text twice.
 */
%module raw

%insert(cgo_comment_typedefs) %{
#cgo fiberrt_system pkg-config: fiberrt
#cgo !fiberrt_system CPPFLAGS: -I${SRCDIR}/../../clib
%}

%{
#include <fiberrt.h>
%}
%include <stdint.i>

/* Typemaps for a handle passed by value, or returned in *out. There are no others. */
%define %handle(ctype, gotypename)
%insert(go_wrapper) %{
// gotypename is a ctype: a plain value, 0 is none.
type gotypename uint64
%}
%typemap(gotype) ctype #gotypename
%typemap(imtype) ctype "uint64"
%typemap(goin) ctype %{ $result = uint64($input) %}
%typemap(goout) ctype %{ $result = gotypename($1) %}
%typemap(in) ctype %{ $1.id = $input; %}
%typemap(out) ctype %{ $result = $1.id; %}
%typemap(gotype) ctype *out "*" #gotypename
%typemap(in) ctype *out %{ $1 = (ctype *)$input; %}
%enddef

%handle(fiber_t, Fiber)
%handle(fiber_cord_t, Cord)
%handle(fiber_scope_t, Scope)
%handle(fiber_chan_t, Chan)

%rename(Version) fiber_version;
%rename(Now) fiber_now;
%rename(Features) fiber_features;
%rename(State) fiber_state;
%rename(SetName) fiber_set_name;
%rename(Detach) fiber_detach;
%rename(CordSelf) fiber_cord_self;
%rename(Self) fiber_self;
%rename(ScopeCancel) raw_scope_cancel;
%rename(ScopeOpenIn) raw_scope_open_in;
%rename(ScopeCloseIn) raw_scope_close_in;
%rename(ChanCreate) fiber_chan_create;
%rename(ChanDestroy) fiber_chan_destroy;
%rename(ChanClose) fiber_chan_close;
%rename(ChanCount) fiber_chan_count;
%rename(DumpFd) fiber_dump_as;
%rename(MetricsFd) fiber_metrics_write;
%rename(AccountingStart) fiber_accounting_start;
%rename(AccountingStop) fiber_accounting_stop;
%rename(TraceStop) fiber_trace_stop;
%rename(AgentStart) fiber_agent_start;
%rename(AgentStop) fiber_agent_stop;

int fiber_version(void);
int64_t fiber_now(void);
uint64_t fiber_features(void);
int fiber_state(fiber_t fiber);
int fiber_set_name(fiber_t fiber, const char *name);
int fiber_detach(fiber_t fiber);
int fiber_self(fiber_t *out);
int fiber_cord_self(fiber_cord_t *out);
int fiber_chan_create(fiber_chan_t *out, size_t item_size, size_t capacity);
int fiber_chan_destroy(fiber_chan_t chan);
int fiber_chan_close(fiber_chan_t chan);
int64_t fiber_chan_count(fiber_chan_t chan);
int fiber_dump_as(int fd, unsigned flags);
int fiber_metrics_write(int fd);
int fiber_accounting_start(void);
int fiber_accounting_stop(void);
int fiber_trace_stop(void);
int fiber_agent_start(const char *path);
int fiber_agent_stop(void);

/* Variants of calls that act on the calling fiber. These act on a hosted fiber that is handed out to this thread. */
%inline %{
static int raw_scope_cancel(fiber_scope_t scope) { return fiber_scope_cancel(scope, NULL); }

static int raw_scope_open_in(fiber_t fiber, fiber_scope_t *out, int64_t timeout_ns, unsigned flags) {
    int error = fiber_hosted_enter(fiber);
    if (error < 0) return error;
    error = fiber_scope_open(out, timeout_ns, flags);
    fiber_hosted_leave();
    return error;
}

static int raw_scope_close_in(fiber_t fiber, fiber_scope_t scope) {
    int error = fiber_hosted_enter(fiber);
    if (error < 0) return error;
    error = fiber_scope_close(scope, NULL);
    fiber_hosted_leave();
    return error;
}
%}
