#!/usr/bin/env bash
# Makes a Python for 64-bit ARM with the TFLite interpreter, which qemu-user runs on this machine: the oracle of
# the numerics modes for ARM. It takes a minute and 700 MB.
#
#   tests/arm64_python.sh FOLDER
#   export QIMPORT_ARM64_PYTHON=FOLDER/python
#
# QIMPORT_ARM64_CORE, which qimport sets, chooses the core: the interpreter picks its kernels by the processor.
set -eu

folder=$(mkdir -p "${1:?usage: $0 FOLDER}" && cd "$1" && pwd)
system=$folder/system
interpreter=2.3.0
release=bookworm
python=3.11

missing=()
for package in qemu-user debootstrap unzip; do
  dpkg --status "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update --quiet
  apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
fi

# The packages of a small Debian; unpacking is enough to run Python from it.
if [ ! -x "$system/usr/bin/python$python" ]; then
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libstdc++6,libgcc-s1 "$release" "$system"
  for package in "$system"/var/cache/apt/archives/*.deb; do
    dpkg --extract "$package" "$system"
  done
fi

if [ ! -d "$system/site/ai_edge_litert" ]; then
  platforms=()
  for tag in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${tag}_aarch64")
  done
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version "$python" --implementation cp \
    "${platforms[@]}" --dest "$folder/wheels" \
    "ai-edge-litert==$interpreter" "numpy>=2,<3" flatbuffers typing_extensions backports.strenum tqdm protobuf
  mkdir -p "$system/site"
  for wheel in "$folder"/wheels/*.whl; do
    unzip -q -o "$wheel" -d "$system/site"
  done
fi

# The interpreter reads /proc/cpuinfo to choose kernels, and qemu looks into its root folder first: every core
# has a root of its own (hard links) with the file that such a machine has.
core() {
  local root=$folder/$1
  [ -d "$root" ] || cp --archive --link "$system" "$root"
  mkdir -p "$root/proc" "$root/sys/devices/system/cpu"
  rm -f "$root/proc/cpuinfo" # a link that all roots share, if the folder was copied
  {
    echo "processor : 0"
    echo "BogoMIPS : 50.00"
    echo "Features : $3"
    echo "CPU implementer : 0x41"
    echo "CPU architecture: 8"
    echo "CPU variant : 0x0"
    echo "CPU part : $2"
    echo "CPU revision : 1"
  } | sed 's/ *:/\t:/' >"$root/proc/cpuinfo"
  for list in possible present; do
    echo 0 >"$root/sys/devices/system/cpu/$list"
  done
}

baseline="fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
core cortex-a53 0xd03 "$baseline"
dotprod="$baseline atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
core neoverse-n1 0xd0c "$dotprod"
core max 0xd49 "$dotprod asimdfhm dit ilrcpc flagm i8mm bf16"

cat >"$folder/python" <<SCRIPT
#!/bin/bash
core=\${QIMPORT_ARM64_CORE:-neoverse-n1}
root=$folder/\$core
[ "\$core" != max ] || core=max,sme=off # qemu 7.2 computes SME wrongly
exec qemu-aarch64 -cpu "\$core" -L "\$root" -E PYTHONHOME="\$root/usr" \\
  -E PYTHONPATH="\$root/site:\${PYTHONPATH:-}" -E OPENBLAS_NUM_THREADS=1 \\
  -E LD_LIBRARY_PATH="\$root/lib/aarch64-linux-gnu:\$root/usr/lib/aarch64-linux-gnu" \\
  "\$root/usr/bin/python$python" "\$@"
SCRIPT
chmod +x "$folder/python"
"$folder/python" -c "import ai_edge_litert.interpreter, platform; print('the interpreter runs on', platform.machine())"
