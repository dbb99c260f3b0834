# SPDX-License-Identifier: MIT OR Apache-2.0
# nix build 'git+file:.?dir=packaging/nix', in a checkout.
{
  description = "A fiber runtime: functions on their own stacks that wait without blocking their thread";

  inputs.nixpkgs.url = "nixpkgs";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "riscv64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: { default = pkgs.callPackage ./package.nix { }; });
    };
}
