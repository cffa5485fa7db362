package hardware

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// User is a process that has a target, or the kernel (PID 0). How says in which way: "held open", "mapped",
// "registered with an io_uring", "exported".
type User struct {
	PID       int
	Name, How string
}

// String names the user for an operator.
func (u *User) String() string {
	if u.PID == 0 {
		return "the kernel (" + u.Name + ")"
	}
	return fmt.Sprintf("process %d (%s)", u.PID, u.Name)
}

// Search is the one search for processes that have a target, of all drivers: open, mapped, or
// registered with an io_uring. The last two outlive their descriptors (F40). It finds them in
// every mount namespace, because it compares inodes and numbers, not paths.
type Search struct {
	// Proc is where procfs is.
	Proc string
	// Ours is the descriptor of this process that does not count.
	Ours int
	// NotSelf leaves out this process, which holds its devices by locks.
	NotSelf bool
	// Writers leaves out who cannot write to the target.
	Writers bool
	// Is recognizes the target.
	Is func(*unix.Statx_t) bool
	// Commands recognizes a node that sends commands to the target, or is nil. It counts however it was
	// opened, because the kernel asks for the privilege alone; but where ours is true, not with this
	// process and its children.
	Commands func(*unix.Statx_t) (is, ours bool)
}

// rounds is how often processes are looked at that change meanwhile.
const rounds = 20

// First gives the user with the lowest number, or nil. unseen is what it could not look into, or "": a descriptor
// that is under way in a socket's message is nobody's, and not found either.
func (s Search) First() (found *User, unseen string, err error) {
	if found, err := s.exported(); found != nil || err != nil {
		return found, "", err
	}
	p := progress{done: map[int]bool{}}
	if s.NotSelf {
		p.done[os.Getpid()] = true
	}
	for again := rounds; again > 0; again-- {
		if err := s.round(&p); err != nil {
			return nil, "", err
		}
		if p.found != nil || !p.changed {
			break
		}
	}
	if found = p.found; found == nil {
		return nil, s.unseen(p.closed, p.first), nil
	}
	name, err := os.ReadFile(filepath.Join(s.Proc, strconv.Itoa(found.PID), "comm"))
	if err != nil && !notReadable(err) {
		return nil, "", err
	}
	found.Name = strings.TrimSpace(string(name))
	return found, "", nil
}

// progress is what the rounds of a search have seen.
type progress struct {
	mu    sync.Mutex // of done, found, closed and changed
	done  map[int]bool
	found *User
	// closed is how many processes cannot be looked into. first: process 1 is shown.
	closed int
	first  bool
	// changed: in this round a process ended, or closed a descriptor, while it was looked at. What it had may be
	// another descriptor's by then, or that of a child that was not listed yet.
	changed bool
}

// round looks at each process that is not done.
func (s Search) round(p *progress) error {
	entries, err := os.ReadDir(s.Proc)
	if err != nil {
		return err
	}
	var looks errgroup.Group
	looks.SetLimit(runtime.GOMAXPROCS(0)) // most of it is the kernel's work
	p.changed = false
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p.first = p.first || pid == 1
		looks.Go(func() error { return s.look(pid, p) })
	}
	return looks.Wait()
}

// look looks at a process, unless that is done.
func (s Search) look(pid int, p *progress) error {
	p.mu.Lock()
	done := p.done[pid]
	p.mu.Unlock()
	if done {
		return nil
	}
	how, err := s.process(pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case how != "":
		if p.found == nil || pid < p.found.PID {
			p.found = &User{PID: pid, How: how}
		}
	case errors.Is(err, errZombie): // what it had a child may have, which was not listed yet
		p.changed = true
	case ended(err):
		p.changed = true
		return nil
	case errors.Is(err, fs.ErrPermission):
		p.closed++
	case err != nil:
		return err
	}
	p.done[pid] = true
	return nil
}

// firstNamespace is the kernel's constant number of the process namespace that sees all others.
const firstNamespace = "pid:[4026531836]"

// unseen describes what a search cannot see: closed processes cannot be looked into, and first says
// whether process 1 is shown, which always lives.
func (s Search) unseen(closed int, first bool) string {
	var all []string
	if space, err := os.Readlink(filepath.Join(s.Proc, "self/ns/pid")); err == nil && space != firstNamespace {
		all = append(all, "those outside of its process namespace")
	}
	if closed > 0 {
		all = append(all, fmt.Sprintf("%d processes that it may not look into", closed))
	}
	if !first {
		all = append(all, "those that "+s.Proc+" hides from it")
	}
	return strings.Join(all, " and ")
}

// Unseen describes the processes of this machine that a search cannot see; "" if it sees all.
func Unseen(proc string) (string, error) {
	_, unseen, err := Search{Proc: proc, Ours: -1, Is: func(*unix.Statx_t) bool { return false }}.First()
	return unseen, err
}

// process says how a process has the target, or "". The error of one that has ended, or has closed a descriptor
// meanwhile, is that it does not exist.
func (s Search) process(pid int) (how string, err error) {
	if is, err := processStat(filepath.Join(s.Proc, strconv.Itoa(pid))); err == nil && is.flags&kernelThread != 0 {
		return "", nil // the kernel's have neither descriptors nor memory, and are many
	}
	for _, dir := range s.threads(pid) {
		how, failed := s.descriptors(dir, pid)
		if how == "" {
			var unread error
			if how, unread = s.maps(dir); unread != nil && !ended(unread) {
				failed = unread // that the memory ended says nothing: a kernel thread has none
			}
		}
		switch {
		case how != "":
			return how, nil
		case err == nil || ended(err) && failed != nil:
			err = failed
		}
	}
	return "", err
}

// threads lists the directories of a process in procfs: its own, which is that of its first thread,
// and that of each thread with other descriptors. Those of a first thread that has ended are gone. procfs
// has a whole directory for each thread, with map_files and root, although it does not list it.
func (s Search) threads(pid int) []string {
	dir := filepath.Join(s.Proc, strconv.Itoa(pid))
	all := []string{dir}
	tasks, _ := os.ReadDir(filepath.Join(dir, "task")) // ended, or closed, as dir is then
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err == nil && tid != pid && !(same(pid, tid, kcmpFiles) && same(pid, tid, kcmpVM)) {
			all = append(all, filepath.Join(s.Proc, task.Name()))
		}
	}
	return all
}

// What kcmp compares: memory and descriptors.
const kcmpVM, kcmpFiles = 1, 2

// same: two threads share what they have. It is false also where the kernel does not say.
func same(one, other, what int) bool {
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), uintptr(what), 0, 0, 0)
	return errno == 0 && differ == 0
}

// descriptors says how a descriptor of a thread has the target.
func (s Search) descriptors(dir string, pid int) (how string, err error) {
	open, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	fds, err := open.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	if len(fds) == 0 {
		if is, err := processStat(dir); err == nil && is.state == "Z" {
			return "", errZombie
		}
	}
	var unknown error
	self := pid == os.Getpid()
	for _, fd := range fds {
		if self && fd == strconv.Itoa(s.Ours) {
			continue
		}
		stat, err := statx(int(open.Fd()), fd)
		if errors.Is(err, fs.ErrPermission) {
			if _, err := os.Readlink(filepath.Join(dir, "fd", fd)); errors.Is(err, fs.ErrPermission) {
				return "", err // as all of this process; else its file system refuses, which is no disk
			}
		}
		switch {
		case ended(err) && self: // this worker opens and closes all the time, and passes no device on behind its locks
		case ended(err):
			unknown = cmp.Or(unknown, err)
		case err != nil: // on a file system that does not answer, which is no disk
		case stat.Mode&unix.S_IFMT == 0:
			registered, err := s.registered(dir, fd)
			if registered {
				return "registered with an io_uring", nil
			}
			unknown = cmp.Or(err, unknown)
		default:
			has, err := s.has(filepath.Join(dir, "fdinfo", fd), &stat, pid)
			switch {
			case ended(err) && self:
			case ended(err):
				unknown = cmp.Or(unknown, err)
			case err != nil:
				return "", err
			case has:
				return "held open", nil
			}
		}
	}
	return "", unknown
}

// errZombie: a process has ended, and its parent has not asked for its end.
var errZombie = errors.New("a zombie")

// has says that an open descriptor is one of the target that counts.
func (s Search) has(fdinfo string, stat *unix.Statx_t, pid int) (bool, error) {
	commands, ours := false, false
	if s.Commands != nil {
		commands, ours = s.Commands(stat)
	}
	switch {
	case commands && !(ours && s.isOurs(pid)):
		flags, err := openFlags(fdinfo)
		return flags&unix.O_PATH == 0, err
	case !s.Is(stat):
		return false, nil
	case !s.Writers:
		return true, nil
	}
	flags, err := openFlags(fdinfo)
	return flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0, err
}

// isOurs says that a process is this one, or has this one among its parents.
func (s Search) isOurs(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		is, err := processStat(filepath.Join(s.Proc, strconv.Itoa(pid)))
		if err != nil {
			return false
		}
		pid = is.parent
	}
	return pid == os.Getpid()
}

// processState is what the kernel says of a process in a line.
type processState struct {
	state  string // "Z" of a zombie
	parent int
	flags  uint64
}

// kernelThread is a flag of the kernel's own processes.
const kernelThread = 0x00200000

// processStat reads it from a process's directory in procfs.
func processStat(dir string) (is processState, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err == nil {
		var skipped int
		_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), // its name may have anything
			&is.state, &is.parent, &skipped, &skipped, &skipped, &skipped, &is.flags)
	}
	return is, err
}

// statx follows the link. DONT_SYNC never asks another machine: a dead NFS server must not hang a
// step.
func statx(dir int, path string) (stat unix.Statx_t, err error) {
	err = unix.Statx(dir, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &stat)
	return stat, err
}

// registered: the descriptor is that of an io_uring, and the target is among its registered files, of which the
// kernel shows paths, or names. The error of a file that these do not lead to is that it may not be looked into.
func (s Search) registered(dir, fd string) (bool, error) {
	if link, err := os.Readlink(filepath.Join(dir, "fd", fd)); err != nil || link != "anon_inode:[io_uring]" {
		return false, nil
	}
	var files []string
	err := RetryInterrupted(context.Background(), lockTimeout, func() error {
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd))
		var shown bool
		if files, shown = registeredFiles(string(text)); err == nil && !shown {
			err = unix.EAGAIN
		}
		return err
	})
	if errors.Is(err, unix.EAGAIN) {
		err = fs.ErrPermission
	}
	for _, path := range files {
		is, known := s.named(dir, path)
		if is {
			return true, nil
		}
		if !known {
			err = fs.ErrPermission
		}
	}
	return false, err
}

// registeredFiles reads the files of an io_uring from its fdinfo: the paths of those that have one, or what may be
// its node where the kernel has names alone (6.1). shown: the kernel lists none while the ring works.
func registeredFiles(fdinfo string) (paths []string, shown bool) {
	_, after, shown := strings.Cut(fdinfo, "UserFiles:\t")
	count, list, _ := strings.Cut(after, "\n")
	list, end, _ := strings.Cut(list, "UserBufs:")
	for line := range strings.Lines(list) {
		switch _, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case strings.HasPrefix(name, "/"):
			paths = append(paths, name)
		case name != "" && name != "<none>" && !strings.HasSuffix(name, "]"): // which ends "socket:[7]"
			paths = append(paths, filepath.Join("/dev", name))
		}
	}
	return paths, shown && (count == "0" || list != "" || strings.Contains(end, "NAPI:")) // which leaves out empty places
}

// named: the path is that of the target, as this worker or the process sees it. known: it is that of something.
func (s Search) named(dir, path string) (is, known bool) {
	for _, root := range []string{filepath.Join(dir, "root"), "/"} {
		stat, err := statx(unix.AT_FDCWD, filepath.Join(root, path))
		is, known = is || err == nil && s.Is(&stat), known || err == nil
	}
	return is, known
}

// maps says how a mapping of a thread's memory has the target. The maps of a process that hangs while it changes
// them are closed to this worker.
func (s Search) maps(dir string) (how string, err error) {
	type answer struct {
		mapped bool
		err    error
	}
	looked := make(chan answer, 1)
	go func() {
		mapped, err := s.readMaps(dir)
		looked <- answer{mapped, err}
	}()
	select {
	case a := <-looked:
		if a.mapped {
			how = "mapped"
		}
		return how, a.err
	case <-time.After(2 * time.Second):
		return "", fs.ErrPermission
	}
}

// followed says whether a mapping is one of the target that counts, if this worker may follow its
// link.
func (s Search) followed(dir, at string) (counts, ok bool) {
	link := filepath.Join(dir, "map_files", at)
	stat, err := statx(unix.AT_FDCWD, link)
	if err != nil {
		return false, false
	}
	if is := s.Is(&stat); !is || !s.Writers {
		return is, true
	}
	// The link's own mode is that of the file as it was opened: protection can be changed later.
	info, err := os.Lstat(link)
	return err != nil || info.Mode()&0o200 != 0, true
}

// readMaps reads the maps as text.
func (s Search) readMaps(dir string) (mapped bool, err error) {
	file, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// 7f871fc67000-7f871fc68000 rw-s 00000000 fe:00 9977908    /dev/loop0
		line := lines.Text()
		// What a private mapping writes stays in memory.
		if _, more, _ := strings.Cut(line, " "); s.Writers && (len(more) < 4 || more[3] != 's') {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "0" {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		mapped, ok := s.followed(dir, strings.TrimLeft(from, "0")+"-"+strings.TrimLeft(to, "0"))
		if !ok {
			mapped = s.described(dir, fields)
		}
		if mapped {
			return true, nil
		}
	}
	return false, lines.Err()
}

// described: a mapping whose link a worker without the privilege (CAP_CHECKPOINT_RESTORE) may not
// follow is one of the target by its line: the file's own device and inode, or the path of a node.
func (s Search) described(dir string, fields []string) bool {
	stat := unix.Statx_t{Mode: unix.S_IFREG}
	if _, err := fmt.Sscanf(fields[3]+" "+fields[4], "%x:%x %d", &stat.Dev_major, &stat.Dev_minor, &stat.Ino); err != nil {
		return false // not a line of maps
	}
	if s.Is(&stat) || len(fields) < 6 {
		return s.Is(&stat)
	}
	is, _ := s.named(dir, strings.Join(fields[5:], " "))
	return is
}

// DescribeUser says who has the target of an open descriptor, or a path, besides that
// descriptor, as the end of a message: ": it is held open by process 7 (qemu)", or "" where
// that cannot be found out.
func DescribeUser(proc string, stat *unix.Stat_t, ours int) string {
	is := func(now *unix.Statx_t) bool {
		if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
			return now.Mode&unix.S_IFMT == unix.S_IFBLK && unix.Mkdev(now.Rdev_major, now.Rdev_minor) == uint64(stat.Rdev)
		}
		return now.Ino == stat.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == uint64(stat.Dev)
	}
	found, _, err := Search{Proc: proc, Ours: ours, Is: is}.First()
	if err != nil || found == nil {
		return "" // the refusal itself does not depend on it
	}
	return fmt.Sprintf(": it is %s by %s", found.How, found)
}

// ended: a process or descriptor ended after it was listed.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// notReadable: it ended, or belongs to another user and cannot be inspected.
func notReadable(err error) bool { return ended(err) || errors.Is(err, fs.ErrPermission) }

// openFlags reads how a descriptor was opened.
func openFlags(fdinfo string) (flags uint64, err error) {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 8, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line with flags", fdinfo)
}
