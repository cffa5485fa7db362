#!/usr/bin/env bash
# Runs the tests of all modules for `make test`, as events in JSON: gotestsum reads them, and calls
# this again with -test.run=PATTERN PACKAGE for a test that failed. What is built and how stands in
# the Makefile.
set -uo pipefail
race=${RACE:-}

if [ $# -gt 0 ]; then
	name=${1#-test.run=^}
	if [ "$name" = '$' ] || [[ $name =~ $ONCE ]]; then # of a package itself, or of a test of chance
		echo "not run again, because one failure of it counts: $2 ${name%$}" >&2
		exit 1
	fi
	# shellcheck disable=SC2086 # words of a command
	exec $TEST $race -timeout 20m "$1" "$2"
fi

# plain runs a command as everything but the race tests is compiled.
plain() { CGO_ENABLED=0 GOFLAGS="$(go env GOFLAGS) -trimpath -buildvcs=false" "$@"; }

# worse notes the worst exit code: 1 for a test that failed, more for a go test that died.
status=0
worse() { [ "$1" -le "$status" ] || status=$1; }

events=$(mktemp -d)
trap 'rm -rf "$events"' EXIT
# shellcheck disable=SC2086 # lists of packages, and words of a command
{
	apart=$(go list $E2E $PLAIN $SLOWEST $MUTANTS $RACED) || exit 2
	plain $TEST -timeout 40m -skip "$LONG" $E2E >"$events/e2e" &
	e2e=$!
	{
		plain $TEST -p 1 -timeout 30m $PLAIN $MUTANTS || worse $?
		for module in devserver packages; do
			(cd "deploy/$module" && plain $TEST -timeout 10m -skip "$LONG" ./...) || worse $?
		done
		exit "$status"
	} >"$events/plain" &
	others=$!
	$TEST $race -p 4 -timeout 30m $RACED || worse $?
	plain $TEST -p 3 -timeout 30m $SLOWEST $(go list ./... | grep -vxF "$apart") || worse $?
}
wait "$e2e" || worse $?
wait "$others" || worse $?
cat "$events"/*
exit "$status"
