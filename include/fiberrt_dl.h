/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fiberrt_dl.h - libfiberrt for programs that load it at run time, by dlopen, and are not linked with it.
 *
 * MADE FROM fiberrt.h by tools/make_dl_header.sh: change that one, and make this anew.
 *
 *     fiberrt_dl_t rt;
 *     char why[256];
 *     if (fiberrt_dl_open(NULL, &rt, why, sizeof why) < 0) return fprintf(stderr, "no fibers: %s\n", why), 1;
 *     rt.fiber_spawn(&fiber, function, argument);
 *
 * A table has a pointer for every function of fiberrt.h, of the same name and type. Types and constants are those of
 * fiberrt.h, which this includes; to call its functions by their plain names is for programs that are linked. In the
 * place of FIBER_WITH_TIMEOUT there is FIBERRT_DL_WITH_TIMEOUT. C99 or C++11 and newer; link with -ldl where the C
 * library is older than glibc 2.34.
 *
 * The library stays in the process once it is loaded: its threads and the ends of others run its code. dlclose is
 * allowed and changes nothing.
 */
#ifndef FIBERRT_DL_H
#define FIBERRT_DL_H

#include <fiberrt.h>

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name by which the library is found where the system has it. Releases with another one have another interface. */
#define FIBERRT_DL_LIBRARY "libfiberrt.so.1"

/* The functions of a library that was loaded. The caller's, to be filled by fiberrt_dl_open or fiberrt_dl_load; plain
 * data, which may be copied, and read by all threads once it is filled. */
typedef struct fiberrt_dl {
    void *handle; /* of dlopen */
    int (*fiber_version)(void);
    const char *(*fiber_strerror)(int error);
    int64_t (*fiber_now)(void);
    int (*fiber_set_fork_policy)(int policy);
    int (*fiber_attr_create)(fiber_attr_t **out);
    int (*fiber_attr_destroy)(fiber_attr_t *attr);
    int (*fiber_attr_set_stack_size)(fiber_attr_t *attr, size_t bytes);
    int (*fiber_attr_set_guard)(fiber_attr_t *attr, int guard);
    int (*fiber_attr_set_guard_size)(fiber_attr_t *attr, size_t bytes);
    int (*fiber_attr_set_name)(fiber_attr_t *attr, const char *name);
    int (*fiber_attr_set_detached)(fiber_attr_t *attr, int detached);
    int (*fiber_attr_set_daemon)(fiber_attr_t *attr, int daemon);
    int (*fiber_attr_set_cord)(fiber_attr_t *attr, fiber_cord_t cord);
    int (*fiber_attr_set_free_arg)(fiber_attr_t *attr, void (*free_arg)(void *));
    int (*fiber_attr_set_pool)(fiber_attr_t *attr, fiber_pool_t pool);
    int (*fiber_new)(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg);
    int (*fiber_spawn)(fiber_t *out, void *(*fn)(void *), void *arg);
    int (*fiber_spawn_attr)(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg);
    int (*fiber_start)(fiber_t fiber);
    int (*fiber_join)(fiber_t fiber, void **result);
    int (*fiber_join_timeout)(fiber_t fiber, void **result, int64_t timeout_ns);
    int (*fiber_await)(fiber_t fiber);
    int (*fiber_await_timeout)(fiber_t fiber, int64_t timeout_ns);
    int (*fiber_detach)(fiber_t fiber);
    int (*fiber_exit)(void *result);
    int (*fiber_self)(fiber_t *out);
    int (*fiber_state)(fiber_t fiber);
    int (*fiber_name)(fiber_t fiber, char *buffer, size_t size);
    int (*fiber_set_name)(fiber_t fiber, const char *name);
    int (*fiber_yield)(void);
    int (*fiber_yield_timeout)(int64_t timeout_ns);
    int (*fiber_yield_value)(void **value);
    int (*fiber_wakeup)(fiber_t fiber);
    int (*fiber_wakeup_value)(fiber_t fiber, void *value);
    int (*fiber_reschedule)(void);
    int (*fiber_reschedule_if_due)(void);
    int (*fiber_transfer)(fiber_t to, void *in, void **out);
    int (*fiber_transferrer)(fiber_t *from, void **value);
    int (*fiber_sleep)(int64_t ns);
    int64_t (*fiber_every)(int64_t *tick_ns, int64_t period_ns);
    int (*fiber_noswitch_enter)(void);
    int (*fiber_noswitch_leave)(void);
    int (*fiber_cancel)(fiber_t fiber, void *reason);
    int (*fiber_cancelled)(void **reason);
    int (*fiber_interrupt)(fiber_t fiber, void *value);
    int (*fiber_interrupted)(void **value);
    int (*fiber_scope_open)(fiber_scope_t *out, int64_t timeout_ns, unsigned flags);
    int (*fiber_scope_spawn)(fiber_scope_t scope, fiber_t *out, int64_t (*fn)(void *), void *arg);
    int (*fiber_scope_spawn_attr)(fiber_scope_t scope, fiber_t *out, const fiber_attr_t *attr, int64_t (*fn)(void *),
        void *arg);
    int (*fiber_scope_next)(fiber_scope_t scope, fiber_t *child, int64_t *result);
    int (*fiber_scope_cancel)(fiber_scope_t scope, void *reason);
    int (*fiber_scope_set_timeout)(fiber_scope_t scope, int64_t timeout_ns);
    int (*fiber_scope_close)(fiber_scope_t scope, int64_t *failure);
    fiber_timeout_block_t (*fiber_timeout_block_open)(int64_t timeout_ns, int *verdict);
    void (*fiber_timeout_block_close)(fiber_timeout_block_t *block);
    int (*fiber_cord_attr_create)(fiber_cord_attr_t **out);
    int (*fiber_cord_attr_destroy)(fiber_cord_attr_t *attr);
    int (*fiber_cord_attr_set_name)(fiber_cord_attr_t *attr, const char *name);
    int (*fiber_cord_attr_set_affinity)(fiber_cord_attr_t *attr, const int *cpus, size_t count);
    int (*fiber_cord_start)(fiber_cord_t *out, const fiber_cord_attr_t *attr, void *(*fn)(void *), void *arg);
    int (*fiber_cord_join)(fiber_cord_t cord, void **result);
    int (*fiber_cord_join_timeout)(fiber_cord_t cord, void **result, int64_t timeout_ns);
    int (*fiber_cord_self)(fiber_cord_t *out);
    int (*fiber_cord_name)(fiber_cord_t cord, char *buffer, size_t size);
    int (*fiber_cord_shutdown)(fiber_cord_t cord, int64_t grace_ns, int64_t deadline_ns);
    int (*fiber_post)(fiber_cord_t cord, void *(*fn)(void *), void *arg);
    int (*fiber_pool_attr_create)(fiber_pool_attr_t **out);
    int (*fiber_pool_attr_destroy)(fiber_pool_attr_t *attr);
    int (*fiber_pool_attr_set_workers)(fiber_pool_attr_t *attr, int count);
    int (*fiber_pool_attr_set_stack_size)(fiber_pool_attr_t *attr, size_t bytes);
    int (*fiber_pool_attr_set_guard_size)(fiber_pool_attr_t *attr, size_t bytes);
    int (*fiber_pool_attr_set_affinity)(fiber_pool_attr_t *attr, const int *cpus, size_t count, int policy);
    int (*fiber_pool_attr_set_spin)(fiber_pool_attr_t *attr, int64_t spin_ns);
    int (*fiber_pool_attr_set_init)(fiber_pool_attr_t *attr, void (*init)(void *arg, int worker), void *arg);
    int (*fiber_pool_attr_set_name)(fiber_pool_attr_t *attr, const char *name);
    int (*fiber_pool_attr_set_task_limit)(fiber_pool_attr_t *attr, int count);
    int (*fiber_pool_attr_set_bound_help)(fiber_pool_attr_t *attr, int help);
    int (*fiber_pool_create)(fiber_pool_t *out, const fiber_pool_attr_t *attr);
    int (*fiber_pool_submit)(fiber_pool_t pool, void *(*fn)(void *), void *arg);
    int (*fiber_pool_submit_flags)(fiber_pool_t pool, void *(*fn)(void *), void *arg, unsigned flags);
    int (*fiber_pool_bind)(fiber_pool_t pool);
    int (*fiber_pool_unbind)(fiber_pool_t pool);
    int (*fiber_pool_close)(fiber_pool_t pool);
    int (*fiber_cord_fd)(void);
    int (*fiber_cord_run)(int64_t duration_ns);
    int (*fiber_cord_next_deadline)(int64_t *out);
    int (*fiber_key_create)(fiber_key_t *out, void (*destructor)(void *));
    int (*fiber_key_create_ambient)(fiber_key_t *out, void (*destructor)(void *), void (*apply)(void *old, void *now));
    int (*fiber_key_delete)(fiber_key_t key);
    void *(*fiber_key_get)(fiber_key_t key);
    int (*fiber_key_set)(fiber_key_t key, void *value);
    int (*fiber_mutex_lock)(fiber_mutex_t *mutex);
    int (*fiber_mutex_lock_timeout)(fiber_mutex_t *mutex, int64_t timeout_ns);
    int (*fiber_mutex_trylock)(fiber_mutex_t *mutex);
    int (*fiber_mutex_unlock)(fiber_mutex_t *mutex);
    int (*fiber_mutex_destroy)(fiber_mutex_t *mutex);
    int (*fiber_cond_wait)(fiber_cond_t *cond, fiber_mutex_t *mutex);
    int (*fiber_cond_wait_timeout)(fiber_cond_t *cond, fiber_mutex_t *mutex, int64_t timeout_ns);
    int (*fiber_cond_signal)(fiber_cond_t *cond);
    int (*fiber_cond_broadcast)(fiber_cond_t *cond);
    int (*fiber_cond_destroy)(fiber_cond_t *cond);
    int (*fiber_sem_init)(fiber_sem_t *sem, int64_t permits);
    int (*fiber_sem_wait)(fiber_sem_t *sem, int64_t n);
    int (*fiber_sem_wait_timeout)(fiber_sem_t *sem, int64_t n, int64_t timeout_ns);
    int (*fiber_sem_trywait)(fiber_sem_t *sem, int64_t n);
    int (*fiber_sem_post)(fiber_sem_t *sem, int64_t n);
    int64_t (*fiber_sem_value)(fiber_sem_t *sem);
    int (*fiber_sem_destroy)(fiber_sem_t *sem);
    int (*fiber_event_init)(fiber_event_t *event, unsigned flags);
    int (*fiber_event_wait)(fiber_event_t *event);
    int (*fiber_event_wait_timeout)(fiber_event_t *event, int64_t timeout_ns);
    int (*fiber_event_set)(fiber_event_t *event);
    int (*fiber_event_reset)(fiber_event_t *event);
    int (*fiber_event_is_set)(fiber_event_t *event);
    int (*fiber_event_destroy)(fiber_event_t *event);
    int (*fiber_wg_add)(fiber_wg_t *group, int64_t n);
    int (*fiber_wg_done)(fiber_wg_t *group);
    int (*fiber_wg_wait)(fiber_wg_t *group);
    int (*fiber_wg_wait_timeout)(fiber_wg_t *group, int64_t timeout_ns);
    int (*fiber_wg_destroy)(fiber_wg_t *group);
    int (*fiber_rwlock_rdlock)(fiber_rwlock_t *rwlock);
    int (*fiber_rwlock_wrlock)(fiber_rwlock_t *rwlock);
    int (*fiber_rwlock_rdlock_timeout)(fiber_rwlock_t *rwlock, int64_t timeout_ns);
    int (*fiber_rwlock_wrlock_timeout)(fiber_rwlock_t *rwlock, int64_t timeout_ns);
    int (*fiber_rwlock_tryrdlock)(fiber_rwlock_t *rwlock);
    int (*fiber_rwlock_trywrlock)(fiber_rwlock_t *rwlock);
    int (*fiber_rwlock_unlock)(fiber_rwlock_t *rwlock);
    int (*fiber_rwlock_destroy)(fiber_rwlock_t *rwlock);
    int (*fiber_once)(fiber_once_t *once, int (*fn)(void *), void *arg);
    int (*fiber_chan_create)(fiber_chan_t *out, size_t item_size, size_t capacity);
    int (*fiber_chan_destroy)(fiber_chan_t chan);
    int (*fiber_chan_close)(fiber_chan_t chan);
    int64_t (*fiber_chan_count)(fiber_chan_t chan);
    int64_t (*fiber_chan_capacity)(fiber_chan_t chan);
    int (*fiber_chan_is_closed)(fiber_chan_t chan);
    int (*fiber_chan_send)(fiber_chan_t chan, const void *item);
    int (*fiber_chan_recv)(fiber_chan_t chan, void *item);
    int (*fiber_chan_send_timeout)(fiber_chan_t chan, const void *item, int64_t timeout_ns);
    int (*fiber_chan_recv_timeout)(fiber_chan_t chan, void *item, int64_t timeout_ns);
    int (*fiber_chan_try_send)(fiber_chan_t chan, const void *item);
    int (*fiber_chan_try_recv)(fiber_chan_t chan, void *item);
    int (*fiber_select)(fiber_case_t *cases, int count, int64_t timeout_ns);
    int64_t (*fiber_read)(int fd, void *buffer, size_t count);
    int64_t (*fiber_write)(int fd, const void *buffer, size_t count);
    int64_t (*fiber_readv)(int fd, const struct iovec *iov, int count);
    int64_t (*fiber_writev)(int fd, const struct iovec *iov, int count);
    int64_t (*fiber_pread)(int fd, void *buffer, size_t count, int64_t offset);
    int64_t (*fiber_pwrite)(int fd, const void *buffer, size_t count, int64_t offset);
    int64_t (*fiber_recv)(int fd, void *buffer, size_t count, int flags);
    int64_t (*fiber_send)(int fd, const void *buffer, size_t count, int flags);
    int64_t (*fiber_recvmsg)(int fd, struct msghdr *message, int flags);
    int64_t (*fiber_sendmsg)(int fd, const struct msghdr *message, int flags);
    int (*fiber_accept)(int fd, struct sockaddr *address, socklen_t *length);
    int (*fiber_accept4)(int fd, struct sockaddr *address, socklen_t *length, int flags);
    int (*fiber_connect)(int fd, const struct sockaddr *address, socklen_t length);
    int (*fiber_open)(const char *path, int flags, mode_t mode);
    int (*fiber_close)(int fd);
    int (*fiber_statx)(int dirfd, const char *path, int flags, unsigned mask, struct statx *out);
    int (*fiber_fsync)(int fd);
    int (*fiber_fdatasync)(int fd);
    int (*fiber_poll_fd)(int fd, int events);
    int (*fiber_openat2)(int dirfd, const char *path, struct open_how *how, size_t size);
    int (*fiber_renameat2)(int old_dirfd, const char *old_path, int new_dirfd, const char *new_path, unsigned flags);
    int (*fiber_rename)(const char *old_path, const char *new_path);
    int (*fiber_unlinkat)(int dirfd, const char *path, int flags);
    int (*fiber_unlink)(const char *path);
    int (*fiber_rmdir)(const char *path);
    int (*fiber_mkdirat)(int dirfd, const char *path, mode_t mode);
    int (*fiber_mkdir)(const char *path, mode_t mode);
    int64_t (*fiber_getdents64)(int fd, void *buffer, size_t size);
    int64_t (*fiber_splice)(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out, size_t count,
        unsigned flags);
    int64_t (*fiber_copy)(int fd_in, int fd_out, int64_t limit, int64_t *written, int64_t *lost);
    int64_t (*fiber_send_fds)(int fd, const void *buffer, size_t count, const int *fds, size_t fd_count);
    int64_t (*fiber_recv_fds)(int fd, void *buffer, size_t count, int *fds, size_t *fd_count, int *flags);
    int (*fiber_process_attr_create)(fiber_process_attr_t **out);
    int (*fiber_process_attr_destroy)(fiber_process_attr_t *attr);
    int (*fiber_process_attr_set_stream)(fiber_process_attr_t *attr, int stream, int source);
    int (*fiber_process_attr_add_fd)(fiber_process_attr_t *attr, int fd, int source);
    int (*fiber_process_attr_set_session)(fiber_process_attr_t *attr, int session);
    int (*fiber_process_attr_set_environment)(fiber_process_attr_t *attr, char *const environment[]);
    int (*fiber_process_attr_set_directory)(fiber_process_attr_t *attr, const char *path);
    int (*fiber_process_attr_set_group)(fiber_process_attr_t *attr, pid_t group);
    int (*fiber_process_attr_set_mask)(fiber_process_attr_t *attr, const sigset_t *mask);
    int (*fiber_process_attr_set_default_signals)(fiber_process_attr_t *attr, const sigset_t *signals);
    int (*fiber_process_spawn)(pid_t *pid, int pipes[3], const fiber_process_attr_t *attr, const char *file,
        char *const argv[]);
    int (*fiber_process_wait)(pid_t pid, int *status, int64_t grace_ns);
    int (*fiber_waitpid)(pid_t pid, int *status, int options);
    int (*fiber_sigwait)(const sigset_t *set, struct signalfd_siginfo *info);
    int (*fiber_offload)(int64_t (*fn)(void *), void *arg, int64_t *result);
    int (*fiber_offload_detached)(int64_t (*fn)(void *), void *arg, void (*free_arg)(void *), int64_t *result);
    int (*fiber_offload_set_limit)(int threads);
    int (*fiber_getaddrinfo)(const char *node, const char *service, const struct addrinfo *hints,
        struct addrinfo **out);
    int (*fiber_dial)(const char *address, int flags);
    int (*fiber_hooks_set)(const fiber_hooks_t *hooks, size_t size);
    int (*fiber_tag_set)(fiber_t fiber, fiber_tag_t tag);
    int (*fiber_tag_get)(fiber_t fiber, fiber_tag_t *out);
    int (*fiber_hosted_new)(fiber_t *out, const fiber_attr_t *attr, fiber_step_t step, void *user);
    int (*fiber_hosted_user)(fiber_t fiber, void **user);
    int (*fiber_hosted_end)(fiber_t fiber, void *result);
    int (*fiber_hosted_enter)(fiber_t fiber);
    int (*fiber_hosted_leave)(void);
    int (*fiber_ops_create)(fiber_op_t **out, size_t count);
    int (*fiber_ops_destroy)(fiber_op_t *ops);
    int (*fiber_op_start)(fiber_op_t *op);
    int (*fiber_exchange)(fiber_op_t *const *ops, int op_count, fiber_completion_t *out, int most, int64_t timeout_ns);
    int (*fiber_info)(fiber_t fiber, fiber_info_t *out, size_t size);
    int (*fiber_stats)(fiber_stats_t *out, size_t size);
    const char *(*fiber_backend_name)(void);
    uint64_t (*fiber_features)(void);
    int (*fiber_dump)(int fd);
    int (*fiber_report_overflows)(int on);
    int (*fiber_watchdog_start)(const fiber_watchdog_t *options, size_t size);
    int (*fiber_watchdog_stop)(void);
} fiberrt_dl_t;

/**
 * Fills a table from a library that is loaded: handle is of dlopen, or RTLD_DEFAULT in a program whose own executable
 * or another library brings libfiberrt. If a function is missing, as in a release older than this header, its pointer
 * is NULL, all others are filled, and the error says which it is: who can do without it may go on.
 *
 * error (NULL if error_size is 0) receives a sentence for people, cut to error_size bytes, or an empty text.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL table is NULL, or error is and error_size is not 0; -ENOSYS a function
 * is missing, the first of which is named. Since: 0.1
 */
static inline int fiberrt_dl_load(void *handle, fiberrt_dl_t *table, char *error, size_t error_size)
{
    /* The linker names, which no other library has functions of. */
#define FIBERRT_DL_FUNCTION_(name) {"fiberrt_" #name, offsetof(fiberrt_dl_t, name)}
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
        FIBERRT_DL_FUNCTION_(fiber_version),
        FIBERRT_DL_FUNCTION_(fiber_strerror),
        FIBERRT_DL_FUNCTION_(fiber_now),
        FIBERRT_DL_FUNCTION_(fiber_set_fork_policy),
        FIBERRT_DL_FUNCTION_(fiber_attr_create),
        FIBERRT_DL_FUNCTION_(fiber_attr_destroy),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_stack_size),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_guard),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_guard_size),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_name),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_detached),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_daemon),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_cord),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_free_arg),
        FIBERRT_DL_FUNCTION_(fiber_attr_set_pool),
        FIBERRT_DL_FUNCTION_(fiber_new),
        FIBERRT_DL_FUNCTION_(fiber_spawn),
        FIBERRT_DL_FUNCTION_(fiber_spawn_attr),
        FIBERRT_DL_FUNCTION_(fiber_start),
        FIBERRT_DL_FUNCTION_(fiber_join),
        FIBERRT_DL_FUNCTION_(fiber_join_timeout),
        FIBERRT_DL_FUNCTION_(fiber_await),
        FIBERRT_DL_FUNCTION_(fiber_await_timeout),
        FIBERRT_DL_FUNCTION_(fiber_detach),
        FIBERRT_DL_FUNCTION_(fiber_exit),
        FIBERRT_DL_FUNCTION_(fiber_self),
        FIBERRT_DL_FUNCTION_(fiber_state),
        FIBERRT_DL_FUNCTION_(fiber_name),
        FIBERRT_DL_FUNCTION_(fiber_set_name),
        FIBERRT_DL_FUNCTION_(fiber_yield),
        FIBERRT_DL_FUNCTION_(fiber_yield_timeout),
        FIBERRT_DL_FUNCTION_(fiber_yield_value),
        FIBERRT_DL_FUNCTION_(fiber_wakeup),
        FIBERRT_DL_FUNCTION_(fiber_wakeup_value),
        FIBERRT_DL_FUNCTION_(fiber_reschedule),
        FIBERRT_DL_FUNCTION_(fiber_reschedule_if_due),
        FIBERRT_DL_FUNCTION_(fiber_transfer),
        FIBERRT_DL_FUNCTION_(fiber_transferrer),
        FIBERRT_DL_FUNCTION_(fiber_sleep),
        FIBERRT_DL_FUNCTION_(fiber_every),
        FIBERRT_DL_FUNCTION_(fiber_noswitch_enter),
        FIBERRT_DL_FUNCTION_(fiber_noswitch_leave),
        FIBERRT_DL_FUNCTION_(fiber_cancel),
        FIBERRT_DL_FUNCTION_(fiber_cancelled),
        FIBERRT_DL_FUNCTION_(fiber_interrupt),
        FIBERRT_DL_FUNCTION_(fiber_interrupted),
        FIBERRT_DL_FUNCTION_(fiber_scope_open),
        FIBERRT_DL_FUNCTION_(fiber_scope_spawn),
        FIBERRT_DL_FUNCTION_(fiber_scope_spawn_attr),
        FIBERRT_DL_FUNCTION_(fiber_scope_next),
        FIBERRT_DL_FUNCTION_(fiber_scope_cancel),
        FIBERRT_DL_FUNCTION_(fiber_scope_set_timeout),
        FIBERRT_DL_FUNCTION_(fiber_scope_close),
        FIBERRT_DL_FUNCTION_(fiber_timeout_block_open),
        FIBERRT_DL_FUNCTION_(fiber_timeout_block_close),
        FIBERRT_DL_FUNCTION_(fiber_cord_attr_create),
        FIBERRT_DL_FUNCTION_(fiber_cord_attr_destroy),
        FIBERRT_DL_FUNCTION_(fiber_cord_attr_set_name),
        FIBERRT_DL_FUNCTION_(fiber_cord_attr_set_affinity),
        FIBERRT_DL_FUNCTION_(fiber_cord_start),
        FIBERRT_DL_FUNCTION_(fiber_cord_join),
        FIBERRT_DL_FUNCTION_(fiber_cord_join_timeout),
        FIBERRT_DL_FUNCTION_(fiber_cord_self),
        FIBERRT_DL_FUNCTION_(fiber_cord_name),
        FIBERRT_DL_FUNCTION_(fiber_cord_shutdown),
        FIBERRT_DL_FUNCTION_(fiber_post),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_create),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_destroy),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_workers),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_stack_size),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_guard_size),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_affinity),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_spin),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_init),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_name),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_task_limit),
        FIBERRT_DL_FUNCTION_(fiber_pool_attr_set_bound_help),
        FIBERRT_DL_FUNCTION_(fiber_pool_create),
        FIBERRT_DL_FUNCTION_(fiber_pool_submit),
        FIBERRT_DL_FUNCTION_(fiber_pool_submit_flags),
        FIBERRT_DL_FUNCTION_(fiber_pool_bind),
        FIBERRT_DL_FUNCTION_(fiber_pool_unbind),
        FIBERRT_DL_FUNCTION_(fiber_pool_close),
        FIBERRT_DL_FUNCTION_(fiber_cord_fd),
        FIBERRT_DL_FUNCTION_(fiber_cord_run),
        FIBERRT_DL_FUNCTION_(fiber_cord_next_deadline),
        FIBERRT_DL_FUNCTION_(fiber_key_create),
        FIBERRT_DL_FUNCTION_(fiber_key_create_ambient),
        FIBERRT_DL_FUNCTION_(fiber_key_delete),
        FIBERRT_DL_FUNCTION_(fiber_key_get),
        FIBERRT_DL_FUNCTION_(fiber_key_set),
        FIBERRT_DL_FUNCTION_(fiber_mutex_lock),
        FIBERRT_DL_FUNCTION_(fiber_mutex_lock_timeout),
        FIBERRT_DL_FUNCTION_(fiber_mutex_trylock),
        FIBERRT_DL_FUNCTION_(fiber_mutex_unlock),
        FIBERRT_DL_FUNCTION_(fiber_mutex_destroy),
        FIBERRT_DL_FUNCTION_(fiber_cond_wait),
        FIBERRT_DL_FUNCTION_(fiber_cond_wait_timeout),
        FIBERRT_DL_FUNCTION_(fiber_cond_signal),
        FIBERRT_DL_FUNCTION_(fiber_cond_broadcast),
        FIBERRT_DL_FUNCTION_(fiber_cond_destroy),
        FIBERRT_DL_FUNCTION_(fiber_sem_init),
        FIBERRT_DL_FUNCTION_(fiber_sem_wait),
        FIBERRT_DL_FUNCTION_(fiber_sem_wait_timeout),
        FIBERRT_DL_FUNCTION_(fiber_sem_trywait),
        FIBERRT_DL_FUNCTION_(fiber_sem_post),
        FIBERRT_DL_FUNCTION_(fiber_sem_value),
        FIBERRT_DL_FUNCTION_(fiber_sem_destroy),
        FIBERRT_DL_FUNCTION_(fiber_event_init),
        FIBERRT_DL_FUNCTION_(fiber_event_wait),
        FIBERRT_DL_FUNCTION_(fiber_event_wait_timeout),
        FIBERRT_DL_FUNCTION_(fiber_event_set),
        FIBERRT_DL_FUNCTION_(fiber_event_reset),
        FIBERRT_DL_FUNCTION_(fiber_event_is_set),
        FIBERRT_DL_FUNCTION_(fiber_event_destroy),
        FIBERRT_DL_FUNCTION_(fiber_wg_add),
        FIBERRT_DL_FUNCTION_(fiber_wg_done),
        FIBERRT_DL_FUNCTION_(fiber_wg_wait),
        FIBERRT_DL_FUNCTION_(fiber_wg_wait_timeout),
        FIBERRT_DL_FUNCTION_(fiber_wg_destroy),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_rdlock),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_wrlock),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_rdlock_timeout),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_wrlock_timeout),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_tryrdlock),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_trywrlock),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_unlock),
        FIBERRT_DL_FUNCTION_(fiber_rwlock_destroy),
        FIBERRT_DL_FUNCTION_(fiber_once),
        FIBERRT_DL_FUNCTION_(fiber_chan_create),
        FIBERRT_DL_FUNCTION_(fiber_chan_destroy),
        FIBERRT_DL_FUNCTION_(fiber_chan_close),
        FIBERRT_DL_FUNCTION_(fiber_chan_count),
        FIBERRT_DL_FUNCTION_(fiber_chan_capacity),
        FIBERRT_DL_FUNCTION_(fiber_chan_is_closed),
        FIBERRT_DL_FUNCTION_(fiber_chan_send),
        FIBERRT_DL_FUNCTION_(fiber_chan_recv),
        FIBERRT_DL_FUNCTION_(fiber_chan_send_timeout),
        FIBERRT_DL_FUNCTION_(fiber_chan_recv_timeout),
        FIBERRT_DL_FUNCTION_(fiber_chan_try_send),
        FIBERRT_DL_FUNCTION_(fiber_chan_try_recv),
        FIBERRT_DL_FUNCTION_(fiber_select),
        FIBERRT_DL_FUNCTION_(fiber_read),
        FIBERRT_DL_FUNCTION_(fiber_write),
        FIBERRT_DL_FUNCTION_(fiber_readv),
        FIBERRT_DL_FUNCTION_(fiber_writev),
        FIBERRT_DL_FUNCTION_(fiber_pread),
        FIBERRT_DL_FUNCTION_(fiber_pwrite),
        FIBERRT_DL_FUNCTION_(fiber_recv),
        FIBERRT_DL_FUNCTION_(fiber_send),
        FIBERRT_DL_FUNCTION_(fiber_recvmsg),
        FIBERRT_DL_FUNCTION_(fiber_sendmsg),
        FIBERRT_DL_FUNCTION_(fiber_accept),
        FIBERRT_DL_FUNCTION_(fiber_accept4),
        FIBERRT_DL_FUNCTION_(fiber_connect),
        FIBERRT_DL_FUNCTION_(fiber_open),
        FIBERRT_DL_FUNCTION_(fiber_close),
        FIBERRT_DL_FUNCTION_(fiber_statx),
        FIBERRT_DL_FUNCTION_(fiber_fsync),
        FIBERRT_DL_FUNCTION_(fiber_fdatasync),
        FIBERRT_DL_FUNCTION_(fiber_poll_fd),
        FIBERRT_DL_FUNCTION_(fiber_openat2),
        FIBERRT_DL_FUNCTION_(fiber_renameat2),
        FIBERRT_DL_FUNCTION_(fiber_rename),
        FIBERRT_DL_FUNCTION_(fiber_unlinkat),
        FIBERRT_DL_FUNCTION_(fiber_unlink),
        FIBERRT_DL_FUNCTION_(fiber_rmdir),
        FIBERRT_DL_FUNCTION_(fiber_mkdirat),
        FIBERRT_DL_FUNCTION_(fiber_mkdir),
        FIBERRT_DL_FUNCTION_(fiber_getdents64),
        FIBERRT_DL_FUNCTION_(fiber_splice),
        FIBERRT_DL_FUNCTION_(fiber_copy),
        FIBERRT_DL_FUNCTION_(fiber_send_fds),
        FIBERRT_DL_FUNCTION_(fiber_recv_fds),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_create),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_destroy),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_stream),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_add_fd),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_session),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_environment),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_directory),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_group),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_mask),
        FIBERRT_DL_FUNCTION_(fiber_process_attr_set_default_signals),
        FIBERRT_DL_FUNCTION_(fiber_process_spawn),
        FIBERRT_DL_FUNCTION_(fiber_process_wait),
        FIBERRT_DL_FUNCTION_(fiber_waitpid),
        FIBERRT_DL_FUNCTION_(fiber_sigwait),
        FIBERRT_DL_FUNCTION_(fiber_offload),
        FIBERRT_DL_FUNCTION_(fiber_offload_detached),
        FIBERRT_DL_FUNCTION_(fiber_offload_set_limit),
        FIBERRT_DL_FUNCTION_(fiber_getaddrinfo),
        FIBERRT_DL_FUNCTION_(fiber_dial),
        FIBERRT_DL_FUNCTION_(fiber_hooks_set),
        FIBERRT_DL_FUNCTION_(fiber_tag_set),
        FIBERRT_DL_FUNCTION_(fiber_tag_get),
        FIBERRT_DL_FUNCTION_(fiber_hosted_new),
        FIBERRT_DL_FUNCTION_(fiber_hosted_user),
        FIBERRT_DL_FUNCTION_(fiber_hosted_end),
        FIBERRT_DL_FUNCTION_(fiber_hosted_enter),
        FIBERRT_DL_FUNCTION_(fiber_hosted_leave),
        FIBERRT_DL_FUNCTION_(fiber_ops_create),
        FIBERRT_DL_FUNCTION_(fiber_ops_destroy),
        FIBERRT_DL_FUNCTION_(fiber_op_start),
        FIBERRT_DL_FUNCTION_(fiber_exchange),
        FIBERRT_DL_FUNCTION_(fiber_info),
        FIBERRT_DL_FUNCTION_(fiber_stats),
        FIBERRT_DL_FUNCTION_(fiber_backend_name),
        FIBERRT_DL_FUNCTION_(fiber_features),
        FIBERRT_DL_FUNCTION_(fiber_dump),
        FIBERRT_DL_FUNCTION_(fiber_report_overflows),
        FIBERRT_DL_FUNCTION_(fiber_watchdog_start),
        FIBERRT_DL_FUNCTION_(fiber_watchdog_stop),
    };
#undef FIBERRT_DL_FUNCTION_
    int missing = 0;
    size_t i;
    if (table == NULL || (error == NULL && error_size != 0))
        return -EINVAL;
    if (error_size != 0)
        error[0] = '\0';
    memset(table, 0, sizeof *table);
    table->handle = handle;
    for (i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (function != NULL)
            memcpy((char *)table + functions[i].offset, &function, sizeof function);
        else if (missing++ == 0 && error_size != 0)
            (void)snprintf(error, error_size, "the library has no function %s",
                           functions[i].name + sizeof "fiberrt_" - 1);
    }
    return missing == 0 ? 0 : -ENOSYS;
}

/**
 * Loads the library and fills a table: path is a file, a name that dlopen looks for, or NULL for FIBERRT_DL_LIBRARY.
 * Its names are not given to other libraries (RTLD_LOCAL). If a function is missing, the library stays loaded, as of
 * fiberrt_dl_load; error is as there, too.
 *
 * Where: anywhere. Switches: no. Errors: -ELIBACC there is no such library, or it cannot be loaded: the error is what
 * dlerror says; as fiberrt_dl_load. Since: 0.1
 */
static inline int fiberrt_dl_open(const char *path, fiberrt_dl_t *table, char *error, size_t error_size)
{
    void *handle;
    if (table == NULL || (error == NULL && error_size != 0))
        return -EINVAL;
    memset(table, 0, sizeof *table);
    handle = dlopen(path != NULL ? path : FIBERRT_DL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        if (error_size != 0)
            (void)snprintf(error, error_size, "%s", reason != NULL ? reason : "it cannot be loaded");
        return -ELIBACC;
    }
    return fiberrt_dl_load(handle, table, error, error_size);
}

/* What FIBERRT_DL_WITH_TIMEOUT keeps; neither this nor the two functions are to be used by themselves. */
typedef struct {
    fiber_timeout_block_t block;
    const fiberrt_dl_t *table;
} fiberrt_dl_block_t;

static inline fiberrt_dl_block_t fiberrt_dl_block_open(const fiberrt_dl_t *table, int64_t timeout_ns, int *verdict)
{
    fiberrt_dl_block_t opened;
    opened.block = table->fiber_timeout_block_open(timeout_ns, verdict);
    opened.table = table;
    return opened;
}

static inline void fiberrt_dl_block_close(fiberrt_dl_block_t *opened)
{
    opened->table->fiber_timeout_block_close(&opened->block);
}

/**
 * FIBERRT_DL_WITH_TIMEOUT(&table, ns, &verdict) { ... } is FIBER_WITH_TIMEOUT by the functions of a table.
 *
 * Where: a fiber. Switches: yes, at its end, as FIBER_WITH_TIMEOUT. Errors: none but in *verdict. Since: 0.1
 */
#define FIBERRT_DL_WITH_TIMEOUT(table, timeout_ns, verdict) \
    FIBERRT_DL_BLOCK_(FIBERRT_PASTE_(fiberrt_dl_block_, __LINE__), table, timeout_ns, verdict)
#define FIBERRT_DL_BLOCK_(name, table, timeout_ns, verdict)                        \
    for (fiberrt_dl_block_t name __attribute__((cleanup(fiberrt_dl_block_close))) = \
             fiberrt_dl_block_open(table, timeout_ns, verdict);                    \
         name.block.once; name.block.once = 0)

#ifdef __cplusplus
}
#endif
#endif
