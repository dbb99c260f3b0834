/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of the example web server that the target `httpd` calls. */
#ifndef FIBERRT_FUZZ_HTTPD_SERVE_H
#define FIBERRT_FUZZ_HTTPD_SERVE_H

#include <fiberrt.h>

#ifdef __cplusplus
extern "C" {
#endif

int serve_begin(const char* root);       /* once: serves this folder. 0, -errno */
int serve_start(int fd, fiber_t* fiber); /* a connection's fiber, which closes fd. 0, -errno */
int serve_left(void);                    /* not 0: there are connections that have not been ended in order */

#ifdef __cplusplus
}
#endif
#endif
