#!/usr/bin/env bash
# Installs the Debian packages whose programs the tests run on real file
# systems and real processes. It may be run again at any time. If it cannot
# install (no root, no apt-get), it prints what is missing, and the tests that
# need it are skipped, with the reason.
set -euo pipefail

# package:program that proves it is there, or a pattern of files
needed=(
	gcc:gcc                   # the race detector
	libc6-dev:/usr/include/stdlib.h
	e2fsprogs:mkfs.ext4       # drivers on real file systems
	xfsprogs:mkfs.xfs
	btrfs-progs:mkfs.btrfs
	util-linux:losetup
	bash-completion:/usr/share/bash-completion/bash_completion # the shells that read the completion scripts
	zsh:zsh
	fish:fish
	mandoc:mandoc             # what is wrong with a man page
	udev:udevadm              # what udev makes of a guest's rules
	genisoimage:isoinfo       # another reader of a config drive's image, and the guest's own
	cloud-init:/usr/lib/python3/dist-packages/cloudinit/sources/helpers/openstack.py
	dosfstools:mkfs.vfat      # signatures as the tools themselves write them
	ntfs-3g:mkfs.ntfs
	cryptsetup-bin:cryptsetup
	lvm2:pvcreate
	gdisk:sgdisk
	fdisk:sfdisk
	qemu-system-x86:qemu-system-x86_64 # a host of its own, with NVMe drives
	busybox-static:busybox
	nvme-cli:nvme
	cpio:cpio
	linux-image-cloud-amd64:/boot/vmlinuz-*-cloud-amd64
	iproute2:devlink          # settings of NICs, in a guest
	ethtool:ethtool
	rabbitmq-server:/usr/lib/rabbitmq/bin/rabbitmq-server # the broker of Nova's notifications, and what sends them
	python3-oslo.messaging:/usr/lib/python3/dist-packages/oslo_messaging/notify/notifier.py
	python3-keystoneauth1:/usr/lib/python3/dist-packages/keystoneauth1/session.py # the sample cleanup listener
	python3-placement:/usr/bin/placement-api # OpenStack's inventory, and its authentication
	python3-keystone:/usr/bin/keystone-wsgi-public
	python3-cyborgclient:/usr/lib/python3/dist-packages/cyborgclient/osc/plugin.py # OpenStack's clients of the HTTP API
	python3-openstacksdk:/usr/lib/python3/dist-packages/openstack/accelerator/v2/device.py
	python3-openstackclient:/usr/bin/openstack
	python3-nova:/usr/lib/python3/dist-packages/nova/objects/virt_device_metadata.py # Nova's own metadata for guests
	postgresql:/usr/lib/postgresql/*/bin/initdb # the database of a Temporal cluster
	curl:curl
	prometheus:promtool       # which checks what /metrics shows
	chromium-headless-shell:chromium-headless-shell # a browser, for what a page may not do
	mmdebstrap:mmdebstrap     # a clean machine that packages are installed on
	rpm:rpm                   # what reads the other packages
	systemd:systemd-analyze
	python3-sushy:/usr/lib/python3/dist-packages/sushy/main.py # Ironic's Redfish client
)

# have is true if a program exists, or a file with an absolute path, or any file that
# matches a pattern.
have() {
	case $1 in
	/*) compgen -G "$1" >/dev/null ;;
	*) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
	esac
}

missing() {
	local entry
	for entry in "${needed[@]}"; do
		have "${entry#*:}" || echo "${entry%%:*}"
	done
}

# The driver for NVMe drives is tested with the nvme-cli of other releases, too: unpacked, each
# with its libraries, never installed. Their lists and packages stay apart from this machine's.
unpacked=/usr/local/lib/burnish-test/nvme-cli
releases=(bullseye trixie sid)

# archive says where this machine gets Debian's packages from.
archive() {
	apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' | awk '$2 == "Debian" { print $1; exit }' | grep .
}

unpack() {
	local release=$1 dir=$unpacked/$1 archive work deb
	archive=$(archive) || return 1
	work=$(mktemp -d)
	mkdir -p "$work/lists/partial" "$work/archives/partial"
	touch "$work/status" # nothing is installed there, so that every library is fetched
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $release main" >"$work/sources.list"
	local options=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$work"
		-o "Dir::State::Lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work"
		-o "Dir::Cache::archives=$work/archives" -o APT::Sandbox::User=root -o Acquire::Languages=none)
	apt-get "${options[@]}" update &&
		apt-get "${options[@]}" install -y --no-install-recommends --download-only nvme-cli >/dev/null || return 1
	rm -rf "$dir.new"
	mkdir -p "$dir.new"
	for deb in "$work"/archives/*.deb; do
		dpkg -x "$deb" "$dir.new/root" || return 1
	done
	rm -rf "$work" "$dir"
	mv "$dir.new" "$dir"
}

unpack_releases() {
	local release
	for release in "${releases[@]}"; do
		if [ -x "$unpacked/$release/root/usr/sbin/nvme" ]; then
			continue
		fi
		if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
			echo "setup-test: missing, and this user cannot unpack it: the nvme-cli of $release"
			continue
		fi
		echo "setup-test: unpacking the nvme-cli of $release"
		mkdir -p "$unpacked"
		unpack "$release" </dev/null || echo "setup-test: the nvme-cli of $release cannot be had"
	done
}

# A Debian with systemd and little else, on which tests install Burnish's packages: unpacked once, and
# never changed.
debian=/usr/local/lib/burnish-test/debian

unpack_debian() {
	local archive
	if [ -x "$debian/lib/systemd/systemd" ]; then
		return
	fi
	if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then
		echo "setup-test: missing, and this user cannot unpack it: a Debian to install packages on"
		return
	fi
	echo "setup-test: unpacking a Debian to install packages on"
	rm -rf "$debian" "$debian.new"
	mkdir -p "${debian%/*}"
	{ archive=$(archive) && mmdebstrap --quiet --mode=root --variant=minbase --include=systemd-sysv,udev \
		--customize-hook='rm -rf "$1"/usr/share/doc/* "$1"/usr/share/locale/* "$1"/usr/share/man/*' \
		bookworm "$debian.new" \
		"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm main" </dev/null &&
		mv "$debian.new" "$debian"; } || echo "setup-test: a Debian to install packages on cannot be had"
}

# Two modules that Debian's kernel for clouds comes without are built for the newest one here, from its
# own source: netdevsim, which is a devlink without hardware, and the driver of the NIC e1000e.
modules=/usr/local/lib/burnish-test/modules

build() {
	local release=$1 version work
	version=$(dpkg-query -W -f '${Version}' "linux-image-$release") || return 1
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "linux-headers-$release" >/dev/null || return 1
	work=$(mktemp -d)
	cd "$work"
	apt-get -qq -o APT::Sandbox::User=root download "linux-source-6.1=$version" >/dev/null || return 1
	dpkg --fsys-tarfile linux-source-*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz |
		tar -xJ --strip-components=3 linux-source-6.1/drivers/net/{netdevsim,ethernet/intel/e1000e} || return 1
	unset MAKEFLAGS MAKELEVEL # of the make that runs this
	make -s -C "/lib/modules/$release/build" M="$work/netdevsim" CONFIG_NETDEVSIM=m modules >/dev/null &&
		make -s -C "/lib/modules/$release/build" M="$work/ethernet/intel/e1000e" CONFIG_E1000E=m modules >/dev/null &&
		strip --strip-debug netdevsim/netdevsim.ko ethernet/intel/e1000e/e1000e.ko && mkdir -p "$modules/$release" &&
		mv netdevsim/netdevsim.ko ethernet/intel/e1000e/e1000e.ko "$modules/$release" || return 1
	rm -rf "$work"
}

build_modules() {
	local release
	release=$(compgen -G '/lib/modules/*-cloud-amd64' | LC_ALL=C sort | tail -n 1) || return 0
	release=${release##*/}
	if [ -z "$release" ] || [ -e "$modules/$release/e1000e.ko" ]; then
		return
	fi
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "setup-test: missing, and this user cannot build it: netdevsim and e1000e for Linux $release"
		return
	fi
	echo "setup-test: building netdevsim and e1000e for Linux $release"
	(build "$release") </dev/null || echo "setup-test: netdevsim and e1000e cannot be built"
}

mapfile -t packages < <(missing)
if [ ${#packages[@]} -eq 0 ]; then
	unpack_releases
	unpack_debian
	build_modules
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup-test: missing, and this user cannot install: ${packages[*]}"
	exit 0
fi

echo "setup-test: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive

# Tests start their own broker and database, and need of Prometheus only promtool, and none of the
# iSCSI that python3-nova depends on. The packages would start services that listen on all
# addresses, and if that fails, the installation fails. So they are not started, unless the
# machine already has a policy for services.
policy=/usr/sbin/policy-rc.d
declare -A units=([rabbitmq-server]="rabbitmq-server.service epmd.service epmd.socket" [prometheus]=prometheus.service
	[postgresql]=postgresql.service
	[python3-nova]="open-iscsi.service iscsid.service iscsid.socket")
services=()
for package in "${!units[@]}"; do
	if [[ " ${packages[*]} " == *" $package "* ]]; then
		services+=("$package")
	fi
done
if [ ${#services[@]} -gt 0 ] && [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '%s\n' '#!/bin/sh' 'case $1 in rabbitmq-server*|epmd*|prometheus*|postgresql*|open-iscsi*|iscsid*) exit 101 ;; esac' >"$policy"
	chmod 755 "$policy"
fi
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; } </dev/null >/dev/null; then
	echo "setup-test: apt-get failed; still missing: $(missing | tr '\n' ' ')"
fi
# They do not start with the machine either.
for package in ${services[@]+"${services[@]}"}; do
	# shellcheck disable=SC2086 # the units of one package
	if command -v systemctl >/dev/null && ! systemctl disable ${units[$package]} >/dev/null 2>&1; then
		echo "setup-test: $package may start with this machine: systemctl could not disable it"
	fi
done
unpack_releases
unpack_debian
build_modules
exit 0
