// SPDX-License-Identifier: MIT OR Apache-2.0
// What most of the tests include, compiled once for all of them. It gives them nothing: each includes what it uses, and
// is built without this by clang, in ./dev soak.
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
