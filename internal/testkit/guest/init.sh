#!/bin/busybox sh
# The first process of the guest. Its shell runs busybox's own commands by their names,
# once there is /proc.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
while read -r module; do
	insmod "$module" || echo "guest: $module was not loaded"
done </etc/modules
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
hostname guest

# Wait for the serial lines and the disk: drivers find them in the background.
for device in /dev/vport0p1 /dev/vport0p2 /dev/vda; do
	until [ -e "$device" ]; do usleep 10000; done
done
mount -t ext4 -o data=ordered,barrier=1,errors=panic /dev/vda /var/lib/burnish || echo "guest: no state"
chmod 700 /var/lib/burnish

# Bind the drives one after the other if asked to, so that each boot gives their disks the
# same numbers: a line is an address and the number of disks once it is bound.
if [ -e /etc/in-order ]; then
	while read -r address disks; do
		echo "$address" >/sys/bus/pci/drivers/nvme/unbind
	done </etc/in-order
	while read -r address disks; do
		echo "$address" >/sys/bus/pci/drivers/nvme/bind
		until [ "$(ls /dev | grep -c '^nvme[0-9]*n[0-9]*$')" -ge "$disks" ]; do usleep 10000; done
	done </etc/in-order
fi

sh /etc/setup || echo "guest: the setup failed"

# The worker. One that found no server is started again, as an init system would do it: an
# emulated machine on a busy host may take longer to reach the server than a worker waits.
# So is one that was killed, however often: its exit code is 128 and the signal's number.
supervise() {
	exec </dev/null >/dev/vport0p2 2>&1
	refused=0
	while [ $refused -lt 6 ]; do
		(
			set -a
			. /etc/burnish/env
			set +a
			exec /usr/bin/burnish-worker
		)
		code=$?
		if [ $code = 1 ]; then
			refused=$((refused + 1))
			echo "guest: the worker refused to start"
		elif [ $code -gt 128 ]; then
			echo "guest: the worker was killed by signal $((code - 128))"
		else
			break
		fi
	done
	echo "guest: the worker ended with exit code $code"
}
if [ -e /usr/bin/burnish-worker ]; then
	supervise &
fi

# Commands from outside, one at a time: a line is a number and a script in base64; the
# answer is the number, the exit code, stdout and stderr.
exec 3<>/dev/vport0p1
echo "0 0 o e" >&3
while :; do
	while read -r id script <&3; do
		echo "$script" | base64 -d >/tmp/.script
		sh /tmp/.script </dev/null >/tmp/.out 2>/tmp/.err 3<&-
		code=$?
		echo "$id $code o$(base64 -w 0 /tmp/.out) e$(base64 -w 0 /tmp/.err)" >&3
	done
	usleep 100000
done
