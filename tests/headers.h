// SPDX-License-Identifier: MIT OR Apache-2.0
// Headers that most of the tests include, compiled once for all of them. It gives the tests nothing else: each includes
// the headers that it uses, and clang builds it without this header in ./dev soak.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
