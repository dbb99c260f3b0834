# SPDX-License-Identifier: MIT OR Apache-2.0
"""The interfaces of other libraries, for programs written for them."""
