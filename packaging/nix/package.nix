# SPDX-License-Identifier: MIT OR Apache-2.0
{ lib, stdenv, cmake, ninja, python3, libev, liburing, ncurses }:

stdenv.mkDerivation {
  pname = "fiberrt";
  version = "0.1.0";
  src = ../..;

  nativeBuildInputs = [ cmake ninja python3 ];
  buildInputs = [ libev liburing ncurses ];
  cmakeFlags = [
    "-DFIBERRT_WITH_URING=ON"
    "-DFIBERRT_WITH_EV=ON"
    "-DFIBERRT_TOOLS=ON"
    "-DFIBERRT_TESTS=OFF"
    "-DFIBERRT_EXAMPLES=OFF"
  ];

  doInstallCheck = true;
  installCheckPhase = "$out/bin/fiberrt-sim --help > /dev/null";

  meta = {
    description = "A fiber runtime: functions on their own stacks that wait without blocking their thread";
    license = [ lib.licenses.mit lib.licenses.asl20 ];
    platforms = [ "x86_64-linux" "aarch64-linux" "riscv64-linux" ];
  };
}
