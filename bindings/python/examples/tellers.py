# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program with a bug that depends on order: docs/simulation.md runs it under fiberrt-sim."""

import fiberrt
from fiberrt import socket

balance = 300
journal, archive = socket.socketpair()


def deposit(amount: int) -> None:
    global balance
    before = balance
    journal.send(b"deposit %d\n" % amount)  # the balance may change during this wait
    balance = before + amount


def withdraw(amount: int) -> None:
    global balance
    journal.send(b"withdraw %d\n" % amount)
    balance -= amount


for fiber in [fiberrt.spawn(deposit, 100), fiberrt.spawn(withdraw, 50)]:
    fiber.join()
assert balance == 350, f"the balance is {balance}, and should be 350"
