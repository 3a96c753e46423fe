#!/bin/sh
# Writes src/bindings.rs from the headers of the libucx-cu12 wheel.
#
#   pip download --no-deps -d /tmp/x libucx-cu12==1.22.0
#   python3 -m zipfile -e /tmp/x/libucx_cu12-1.22.0-*.whl /tmp/ucxwheel
#   ./regenerate.sh /tmp/ucxwheel/libucx/include
#
# Needs libclang (apt-get install libclang-14-dev) and bindgen
# (cargo install --locked bindgen-cli@0.73.2; BINDGEN=/path/to/bindgen if it is not on PATH).
set -eu
include=${1:?usage: regenerate.sh /path/to/libucx/include}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^#define UCP_API_M[AI][JN]OR *//p' "$include/ucp/api/ucp_version.h" | paste -sd.)

# Only what a tag-matching transport that sleeps on a file descriptor needs.
context='ucp_get_version|ucp_get_version_string|ucp_config_(read|modify|release)|ucp_init_version|ucp_cleanup|ucp_context_(query|print_info)'
worker='ucp_worker_(create|destroy|query|progress|get_efd|arm|wait|signal|get_address)|ucp_worker_release_address|ucp_release_address'
endpoint='ucp_ep_(create|close_nbx|query|flush_nbx)'
tag='ucp_tag_(send_nbx|recv_nbx|probe_nb|msg_recv_nbx)|ucp_request_(check_status|cancel|free)'
memory='ucp_mem_(map|unmap)|ucp_rkey_(pack|buffer_release|ptr|destroy)|ucp_ep_rkey_unpack'
values='ucp_(feature|params_field|context_attr_field|worker_params_field|worker_flags_t|worker_attr_field|worker_address_flags_t|ep_params_field|ep_params_flags_field|ep_close_flags_t|ep_attr_field|err_handling_mode_t|op_attr_t|dt_type|mem_map_params_field)'

# Two memory types are removed because their values differ between UCX versions.
"${BINDGEN:-bindgen}" \
    --dynamic-loading Ucp --dynamic-link-require-all \
    --allowlist-function "$context|$worker|$endpoint|$tag|$memory" \
    --allowlist-type "$values|ucs_memory_type_t|ucs_thread_mode_t" \
    --allowlist-var 'UCP_MEM_MAP_(NONBLOCK|ALLOCATE|FIXED)' \
    --blocklist-type 'FILE|_IO_.*|sockaddr|sockaddr_storage|socklen_t|sa_family_t|__off_t|__off64_t|__socklen_t' \
    --raw-line "// Generated from the UCX $version headers by regenerate.sh (next to Cargo.toml): do not edit." \
    --raw-line 'use libc::{sockaddr, sockaddr_storage, socklen_t, FILE};' \
    --default-enum-style consts --no-prepend-enum-name \
    --with-derive-default --no-layout-tests --no-doc-comments \
    --rust-target 1.85 --rust-edition 2021 \
    "$include/ucp/api/ucp.h" -- -I"$include" \
    | grep -v -e "UCS_MEMORY_TYPE_\(LAST\|UNKNOWN\)" > "$here/src/bindings.rs"
rustfmt --edition 2021 "$here/src/bindings.rs"
