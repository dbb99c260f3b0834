// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

// #include <fiberrt.h>
import "C"

// StrError is fiber_strerror.
func StrError(result int) string { return C.GoString(C.fiber_strerror(C.int(result))) }

// BackendName is fiber_backend_name.
func BackendName() string { return C.GoString(C.fiber_backend_name()) }
