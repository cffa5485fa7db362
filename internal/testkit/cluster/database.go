package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"burnish/internal/testkit/proc"
)

// databaseUser is PostgreSQL's superuser; it has no password.
const databaseUser = "temporal"

// postgres is the path of a program of PostgreSQL, "" where it is not installed.
func postgres(program string) string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// Missing names what is not installed, "" where nothing is missing.
func Missing() string {
	if postgres("initdb") == "" {
		return "no PostgreSQL (package postgresql)"
	}
	return ""
}

// unprivileged is a command of PostgreSQL, which refuses to run as root: in a namespace of its own it
// has another user, and the files are the caller's.
func unprivileged(program string, args ...string) (*exec.Cmd, error) {
	args = append([]string{postgres(program)}, args...)
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		args = append([]string{"unshare", "--user", "--map-user=" + u.Uid, "--map-group=" + u.Gid}, args...)
	}
	return exec.Command(args[0], args[1:]...), nil
}

// prepareDatabase starts the database that is there, or a new one with Temporal's schemas.
func (c *Cluster) prepareDatabase(ctx context.Context) error {
	if why := Missing(); why != "" {
		return errors.New(why)
	}
	complete := c.in("schemas")
	if _, err := os.Stat(complete); err == nil {
		return c.Database.Start(ctx)
	}
	initdb, err := unprivileged("initdb", "--pgdata="+c.in("data"), "--username="+databaseUser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.in("data")), c.run(initdb), c.Database.Start(ctx)); err != nil {
		return err
	}
	for database, schema := range map[string]string{"temporal": "temporal", "temporal_visibility": "visibility"} {
		for _, args := range [][]string{{"create-database"}, {"setup-schema", "-v", "0.0"},
			{"update-schema", "--schema-name", "postgresql/v12/" + schema}} {
			tool := exec.Command(filepath.Join(c.options.Programs, "temporal-sql-tool"), args...)
			tool.Env = append(os.Environ(), "SQL_PLUGIN=postgres12", "SQL_HOST="+c.network+"1", "SQL_PORT="+postgreSQLPort,
				"SQL_USER="+databaseUser, "SQL_DATABASE="+database)
			if err := c.run(tool); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(complete, nil, 0o600)
}

// Dump is everything in the database that runs in a cluster's folder, as SQL: bytes are hexadecimal.
func Dump(dir string) ([]byte, error) {
	status, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(status), "\n")
	if len(lines) < 6 {
		return nil, fmt.Errorf("%s: the database is not ready", dir)
	}
	cmd := exec.Command(postgres("pg_dumpall"), "--data-only", "--host="+lines[5], "--port="+lines[3],
		"--username="+databaseUser)
	r, err := proc.Succeed(cmd)
	return []byte(r.Stdout), err
}

// startDatabase starts PostgreSQL. One that was killed a moment ago may not have ended, or its parts may
// still have its memory.
func (c *Cluster) startDatabase(ctx context.Context) (p *proc.Process, err error) {
	args := []string{"-D", c.in("data"), "-c", "listen_addresses=" + c.network + "1", "-c", "port=" + postgreSQLPort,
		"-c", "unix_socket_directories=", "-c", "max_connections=300"}
	if c.options.Fast {
		args = append(args, "-c", "fsync=off")
	}
	if err := os.Chmod(c.in("data"), 0o700); err != nil { // a copy has other rights
		return nil, err
	}
	late := proc.Await(ctx, startWithin, proc.PollEvery, "the old database to end", func() (bool, string) {
		var cmd *exec.Cmd
		if cmd, err = unprivileged("postgres", args...); err == nil {
			p, err = proc.Start("postgresql", c.in("postgresql.log"), cmd)
		}
		if err == nil {
			err = p.Await(ctx, startWithin, func(log string) bool {
				return strings.Contains(log, "database system is ready to accept connections")
			})
		}
		seen := fmt.Sprint(err)
		return !strings.Contains(seen, "postmaster.pid\" already exists") && !strings.Contains(seen, "is still in use"), seen
	})
	return p, errors.Join(late, err)
}
