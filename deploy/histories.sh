#!/usr/bin/env bash
# Records the histories that later versions replay: takes devices through their
# states with the present commit, and keeps the histories of all workflows in
# workflows/testdata/histories/<version>.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(cat VERSION)
into=$root/workflows/testdata/histories/$version
work=$(mktemp -d)
server= worker= appliance=
cleanup() {
	[ -z "$appliance" ] || { kill "$appliance" && wait "$appliance"; } 2>/dev/null || true
	[ -z "$worker" ] || { kill "$worker" && wait "$worker"; } 2>/dev/null || true
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

echo "histories of $version"
CGO_ENABLED=0 go build -o "$work/burnish" ./starter
CGO_ENABLED=0 go build -o "$work/burnish-worker" ./worker
mkdir "$work/state"
chmod 700 "$work/state"

mkfifo "$work/ready"
bin/burnish-devserver --port 0 --ui-port 0 --db "$work/temporal.db" >"$work/ready" 2>"$work/server.log" &
server=$!
read -r line <"$work/ready"
TEMPORAL_ADDRESS=$(sed -n 's/.*temporal \([0-9.:]*\).*/\1/p' <<<"$line")
export TEMPORAL_ADDRESS
start_worker() {
	BURNISH_ROLE=all BURNISH_HOST=histories BURNISH_STATE_DIR=$work/state "$@" "$work/burnish-worker" 2>>"$work/worker.log" &
	worker=$!
}
burnish() { "$work/burnish" "$@" >/dev/null; }
# until_state NAME STATE waits until the device is in that state.
until_state() {
	for _ in $(seq 300); do
		[ "$("$work/burnish" show "$1" -o json 2>/dev/null | sed -n 's/^  "device_state": "\(.*\)",$/\1/p')" = "$2" ] && return
		sleep 0.1
	done
	echo "$1 did not become $2" >&2
	return 1
}
a=11111111-1111-4111-8111-111111111111
start_worker env

# turnover: bind, unbind and clean several times, past a continue-as-new.
burnish enroll turnover --host histories --driver fake --set size=1MiB --one-time-use --provide
for _ in 1 2 3 4 5 6; do
	until_state turnover available
	burnish bind turnover --instance "$a" --request "r$RANDOM$RANDOM"
	burnish rebuild turnover --instance "$a"
	burnish unbind turnover --instance "$a"
done
until_state turnover available

# repair: a step that fails, the operator's clean, named steps, maintenance, retirement.
burnish enroll repair --host histories --driver fake --set size=1MiB --set 'fault=fail:zero@40%x1' --provide
until_state repair error
burnish clean repair --wait
burnish maintain repair --reason inspection
burnish maintain repair --off
burnish manage repair
burnish clean repair --steps verify --wait
burnish retire repair --reason worn
burnish enroll aborted --host histories --driver fake --set size=256MiB,delay=20s --provide
until_state aborted cleaning
burnish abort aborted
until_state aborted error

# crash: the worker is killed during a step, and the next one resumes it.
burnish enroll crash --host histories --driver fake --set size=256MiB,delay=4s --provide
until_state crash cleaning
kill -9 "$worker"
wait "$worker" || true
start_worker env
until_state crash available

# replaced and moved: other hardware in the slot, which then moves to another slot.
burnish enroll replaced --host histories --driver fake --set size=1MiB
echo '{"serial": "ANOTHER", "faults": {}}' >"$work/state/fake/replaced/state.json"
burnish replace replaced
burnish move replaced moved
burnish provide moved
until_state moved available

# runbook: a hold and a wait, in a manual clean and in the full one; killed while it is held.
cat >"$work/policy.yaml" <<'POLICY'
runbooks:
  by-hand: {steps: [{step: hold, args: {reason: look at it}}, {step: wait, args: {for: 1s}}, {step: zero}, {step: verify}]}
  full: {match: {type: BOOK}, steps: [{step: zero}, {step: verify}, {step: hold, args: {reason: look at it}}]}
POLICY
restart_worker() {
	kill "$1" "$worker"
	wait "$worker" || true
	shift
	start_worker "$@"
}
# until_held waits until the clean of the device runbook is on hold.
until_held() {
	for _ in $(seq 300); do
		"$work/burnish" show runbook -o json 2>/dev/null | grep -q '"fault": "on_hold"' && return
		sleep 0.1
	done
	echo "runbook is not on hold" >&2
	return 1
}
restart_worker -15 env BURNISH_POLICY="$work/policy.yaml"
burnish enroll runbook --host histories --driver fake --type BOOK --set size=1MiB
burnish clean runbook --runbook by-hand
until_held
burnish release-hold runbook
until_state runbook manageable
burnish provide runbook
until_held
restart_worker -9 env BURNISH_POLICY="$work/policy.yaml"
until_held
burnish release-hold runbook
until_state runbook available

# uncleanable, and automated cleaning off.
burnish enroll bare --host histories --driver fake --set size=1MiB,erase=none --provide
until_state bare available
kill "$worker"
wait "$worker"
start_worker env BURNISH_AUTOMATED_CLEAN=false
burnish bind bare --instance "$a"
burnish unbind bare --instance "$a"
burnish bind turnover --instance "$a"
burnish unbind turnover --instance "$a"
burnish clean turnover --wait
until_state turnover available
until_state bare available

# limits: one clean at a time, and a breaker that one failure opens.
kill "$worker"
wait "$worker"
printf 'limits: {concurrent_cleans: 1, breaker: 1}\n' >"$work/limits.yaml"
start_worker env BURNISH_POLICY="$work/limits.yaml"
burnish enroll slot1 --host histories --driver fake --set size=64MiB,delay=2s --provide
burnish enroll slot2 --host histories --driver fake --set size=1MiB --provide
until_state slot2 available
burnish enroll slot3 --host histories --driver fake --set size=1MiB --set 'fault=fail:zero@40%x1' --provide
until_state slot3 error
burnish enroll slot4 --host histories --driver fake --set size=1MiB --provide
until_state slot4 pending_cleaning
burnish resume --model fake --step zero
until_state slot4 available

# shared: a server of a pool, which others take before a bind and while it is available, and
# leave; the worker is killed meanwhile. premade: a migration.
CGO_ENABLED=0 go build -o "$work/oneviewsim" ./internal/testkit/cmd/oneviewsim
mkfifo "$work/rack"
"$work/oneviewsim" -dir "$work/rack1" -servers 2 >"$work/rack" &
appliance=$!
read -r _ rack <"$work/rack"
printf 'appliances: {rack1: {url: "%s", username: burnish, password: burnish-is-changed, domain: LOCAL, ca: "%s", periodic_check_interval: 1}}\n' \
	"$rack" "$work/rack1/ca.pem" >"$work/oneview.yaml"
chmod 600 "$work/oneview.yaml"
others() { curl -fsS -X POST "http://$(<"$work/rack1/control")/$1?server=server-$2" >/dev/null; }
share() {
	burnish enroll "$1" --host histories --driver fake --type NODE --set "size=1MiB,serial=CZ0000000$2,oneview=rack1" \
		--set "server_hardware_uri=/rest/server-hardware/39313738-3034-5A43-0000-00000000000$2" \
		--set server_profile_template_uri=/rest/server-profile-templates/1a2b3c4d-0000-4000-8000-000000000001 "${@:3}"
}
kill "$worker"
wait "$worker"
start_worker env BURNISH_ONEVIEW="$work/oneview.yaml"
share shared 1 --set dynamic_allocation=true --provide
until_state shared available
burnish bind shared --instance "$a" --timeout 5m
burnish unbind shared --instance "$a"
until_state shared available
others take 1
burnish bind shared --instance "$a" --timeout 5m 2>/dev/null && exit 1
until_state shared manageable
others free 1
restart_worker -9 env BURNISH_ONEVIEW="$work/oneview.yaml"
until_state shared available
others take 1
until_state shared manageable
burnish retire shared --reason worn
share premade 2 --provide
until_state premade available
others take 2
burnish oneview migrate premade --yes
until_state premade available

# The workflows of a host, a cloud and an appliance come last: their recorder is the only worker then.
kill "$worker"
wait "$worker" || true
worker=
rm -rf "$into"
go run ./internal/testkit/cmd/histories -into "$into" turnover repair aborted crash runbook bare replaced moved slot2 slot4 shared premade
