package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/nova/brokers"
)

// Role is the part of the work that a worker does.
type Role string

// The roles.
const (
	RoleControl Role = "control"
	RoleHost    Role = "host"
	RoleAll     Role = "all"
)

// Controls says whether the role runs the control worker.
func (r Role) Controls() bool { return r == RoleControl || r == RoleAll }

// Hosts says whether the role runs a host's worker.
func (r Role) Hosts() bool { return r == RoleHost || r == RoleAll }

// Worker holds the settings of a worker process, which its environment sets; each variable
// has the prefix BURNISH_.
type Worker struct {
	Role       Role     `env:"ROLE" envDefault:"all" help:"control, host or all"`
	Host       string   `env:"HOST" help:"the host's name; default: the machine's"`
	StateDir   string   `env:"STATE_DIR" envDefault:"/var/lib/burnish" help:"the worker's records, which must survive a restart"`
	HostFile   string   `env:"HOST_FILE" help:"host.yaml: what may be destroyed on this host; default: nothing; in role all, files below STATE_DIR and fake devices"`
	PolicyFile string   `env:"POLICY" help:"policy.yaml: priorities of steps, how NVMe drives are erased, wear limits; a host with the driver pci reads its models and firmware"`
	Inventory  string   `env:"INVENTORY" envDefault:"file" help:"where reservations are kept: file, or placement with OpenStack's OS_* variables"`
	NovaHosts  NameMap  `env:"NOVA_HOSTS" help:"hosts that Nova names differently: NOVA=BURNISH,…; case is ignored"`
	Traits     NameMap  `env:"TRAITS" help:"names for standard traits that an old Placement does not know: HW_X=CUSTOM_X,…"`
	Drivers    []string `env:"DRIVERS" envDefault:"block,fake" help:"drivers, separated by commas"`
	// Policy is the policy file with the variables of cleans, which follow.
	Policy          clean.Policy
	HostSilentAfter time.Duration      `env:"HOST_SILENT_AFTER" envDefault:"5m" help:"how long a step waits for its host before the operator is informed"`
	CleanupTimeout  time.Duration      `env:"CLEANUP_TIMEOUT" help:"running time of one whole clean; default: by step and size"`
	Automated       bool               `env:"AUTOMATED_CLEAN" envDefault:"true" help:"clean by itself when a binding ends"`
	OnEnroll        bool               `env:"CLEAN_ON_ENROLL" envDefault:"true" help:"a device is dirty when it is enrolled"`
	Verify          string             `env:"VERIFY" envDefault:"full" help:"full, or sample:N for one block in N"`
	OnInterrupt     device.OnInterrupt `env:"ON_INTERRUPT" envDefault:"resume" help:"after a crash in mid-clean: resume or error"`
	TellAfter       time.Duration      `env:"TELL_AFTER" envDefault:"5m" help:"how long a device may wait without progress until it needs the operator"`

	MaxCleansPerHost int           `env:"MAX_CLEANS_PER_HOST" envDefault:"4" help:"cleans that run at the same time on this host"`
	StickyCache      int           `env:"WORKFLOW_CACHE" envDefault:"2000" help:"devices whose workflows are kept in memory"`
	GracefulStop     time.Duration `env:"STOP_TIMEOUT" envDefault:"30s" help:"how long a stopping worker lets steps finish their chunk"`
	NVMeHelper       string        `env:"NVME_HELPER" help:"the program that opens NVMe controllers if the worker is not root"`
	NovaBroker       string        `env:"AMQP_URL" help:"the RabbitMQ of Nova's notifications: amqp://, amqps://, or the transport_url of a Nova service; default: none, only the periodic reconciliation"`
	OneView          string        `env:"ONEVIEW" help:"oneview.yaml: the OneView appliances that share servers with Burnish, read by control workers; default: none"`
	SweepInterval    time.Duration `env:"SWEEP_INTERVAL" envDefault:"60s" help:"pause between two reconciliations, with the inventory, of a host's records with the running workflows, and of offered devices with their records; 0: only when a notification or a signal requests one"`
	AcceptServer     string        `env:"ACCEPT_SERVER" help:"CLUSTER/NAMESPACE: the Temporal cluster and namespace that take over STATE_DIR from the ones recorded there"`
	CodecKeys        string        `env:"CODEC_KEYS" help:"a file of keys, mode 0600, the same for all workers and commands: what Temporal keeps of devices is encrypted; default: it is not"`
	HostKey          string        `env:"HOST_KEY" help:"the file of this host's private key, which is made if it is missing; default: host.key in STATE_DIR"`
	HostKeys         string        `env:"HOST_KEYS" help:"the file of the public keys of hosts, read by control workers: a device is offered only if its host has signed its clean (needs BURNISH_API_KEY); default: what hosts answer is believed"`
	Versioned        bool          `env:"VERSIONED" envDefault:"false" help:"control workers of several versions run beside each other, and each run of a workflow stays with its own: see burnish upgrade"`
	MetricsAddress   string        `env:"METRICS_ADDRESS" help:"HOST:PORT where /metrics, /healthz and /readyz answer, over HTTP and to everybody: counts only; default: none"`
	// API holds the settings of the HTTP API.
	API
	// Metadata holds those of the metadata service.
	Metadata
	// Logs holds those of the log.
	Logs
	// Cloud is the name in clouds.yaml (OS_CLOUD) of the cloud whose Placement is the inventory.
	Cloud string
}

// HostKeyFile is where this host's private key lies.
func (w Worker) HostKeyFile() string { return cmp.Or(w.HostKey, filepath.Join(w.StateDir, "host.key")) }

const prefix = "BURNISH_"

var (
	novaHostForm      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$`)
	standardTraitForm = regexp.MustCompile(`^[A-Z0-9_]{1,255}$`)
	customTraitForm   = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]{1,248}$`)
)

var hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// LoadWorker reads and checks the environment, whatever the role. An empty variable counts
// as not set. The error has one line for each variable that is wrong, with its name.
func LoadWorker() (Worker, error) {
	var w Worker
	if err := env.ParseWithOptions(&w, env.Options{Prefix: prefix}); err != nil {
		return w, tidyEnvError(err)
	}
	if w.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return w, fmt.Errorf("BURNISH_HOST is not set and the machine has no name: %w", err)
		}
		w.Host = name
	}
	w.Host = strings.ToLower(w.Host)
	w.NovaHosts = w.NovaHosts.lower()
	w.Cloud = cmp.Or(os.Getenv("OS_CLOUD"), "default")
	for i, driver := range w.Drivers {
		w.Drivers[i] = strings.TrimSpace(driver)
	}
	dir, err := filepath.Abs(w.StateDir)
	if err != nil {
		return w, fmt.Errorf("BURNISH_STATE_DIR: %w", err)
	}
	w.StateDir = dir
	w.Policy = clean.Policy{
		HostSilentAfter: w.HostSilentAfter, CleanupTimeout: w.CleanupTimeout, Automated: w.Automated, OnEnroll: w.OnEnroll,
		StepSettings: device.StepSettings{
			Verify: w.Verify, OnInterrupt: w.OnInterrupt, TellAfter: w.TellAfter, SanitizeStall: defaultStall,
		},
	}
	w.tidy()
	if w.PolicyFile != "" {
		if err := readPolicy(w.PolicyFile, &w.Policy); err != nil {
			return w, eachLine("BURNISH_POLICY: ", err)
		}
	}
	return w, w.check()
}

func (w Worker) check() error {
	var wrong []error
	refuse := func(is bool, name, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf("%s%s: %s", prefix, name, fmt.Sprintf(format, args...)))
		}
	}
	refuse(!w.Role.Controls() && !w.Role.Hosts(), "ROLE", "%q is not one of control, host, all", w.Role)
	refuse(!hostForm.MatchString(w.Host), "HOST", "%q is not a valid host name", w.Host)
	for _, nova := range slices.Sorted(maps.Keys(w.NovaHosts)) {
		ours := w.NovaHosts[nova]
		refuse(!novaHostForm.MatchString(nova), "NOVA_HOSTS", "%q is not a valid host name", nova)
		refuse(!hostForm.MatchString(ours), "NOVA_HOSTS", "%q is not a valid host name", ours)
	}
	for _, standard := range slices.Sorted(maps.Keys(w.Traits)) {
		custom := w.Traits[standard]
		refuse(!standardTraitForm.MatchString(standard) || strings.HasPrefix(standard, "CUSTOM_"), "TRAITS",
			"%q is not a standard trait", standard)
		refuse(!customTraitForm.MatchString(custom), "TRAITS", "%q does not have the form CUSTOM_X", custom)
	}
	refuse(slices.Contains(w.Drivers, ""), "DRIVERS", "%q has an empty name", strings.Join(w.Drivers, ","))
	if err := w.Policy.StepSettings.Validate(); err != nil {
		wrong = append(wrong, eachLine(prefix, err))
	}
	refuse(w.HostSilentAfter <= 0, "HOST_SILENT_AFTER", "%s is not positive", w.HostSilentAfter)
	refuse(w.TellAfter <= 0, "TELL_AFTER", "%s is not positive", w.TellAfter)
	refuse(w.CleanupTimeout < 0, "CLEANUP_TIMEOUT", "%s is negative", w.CleanupTimeout)
	refuse(w.MaxCleansPerHost < 1 || w.MaxCleansPerHost > 1000, "MAX_CLEANS_PER_HOST", "%d is not within 1 to 1000",
		w.MaxCleansPerHost)
	if _, err := clean.NewPlanner(steps.All().Planning(), w.Policy); err != nil {
		wrong = append(wrong, eachLine(prefix+"POLICY: "+w.PolicyFile+": ", err))
	}
	refuse(w.StickyCache < 1, "WORKFLOW_CACHE", "%d is less than 1", w.StickyCache)
	cluster, namespace, _ := strings.Cut(w.AcceptServer, "/")
	refuse(w.AcceptServer != "" && (cluster == "" || namespace == ""), "ACCEPT_SERVER",
		"%q is not of the form CLUSTER/NAMESPACE", w.AcceptServer)
	refuse(w.GracefulStop <= 0, "STOP_TIMEOUT", "%s is not positive", w.GracefulStop)
	refuse(w.CodecKeys != "" && !filepath.IsAbs(w.CodecKeys), "CODEC_KEYS", "%q is not an absolute path", w.CodecKeys)
	refuse(w.HostKey != "" && !filepath.IsAbs(w.HostKey), "HOST_KEY", "%q is not an absolute path", w.HostKey)
	refuse(w.HostKeys != "" && !filepath.IsAbs(w.HostKeys), "HOST_KEYS", "%q is not an absolute path", w.HostKeys)
	refuse(w.NVMeHelper != "" && !filepath.IsAbs(w.NVMeHelper), "NVME_HELPER", "%q is not an absolute path", w.NVMeHelper)
	if _, err := brokers.Parse(w.NovaBroker); w.NovaBroker != "" {
		refuse(err != nil, "AMQP_URL", "%v", err) // which never contains the password
	}
	_, _, err := net.SplitHostPort(w.MetricsAddress)
	refuse(w.MetricsAddress != "" && err != nil, "METRICS_ADDRESS", "%q is not of the form HOST:PORT", w.MetricsAddress)
	w.API.check(refuse)
	w.Metadata.check(refuse)
	refuse(w.SweepInterval < 0, "SWEEP_INTERVAL", "%s is negative", w.SweepInterval)
	return errors.Join(wrong...)
}

// WorkerHelp lists every setting with its default.
func WorkerHelp() (string, error) {
	fields, err := env.GetFieldParamsWithOptions(&Worker{}, env.Options{Prefix: prefix})
	if err != nil {
		return "", err
	}
	help := helpTexts()
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, f := range fields {
		def := ""
		if f.HasDefaultValue {
			def = " (" + f.DefaultValue + ")"
		}
		fmt.Fprintf(t, "  %s\t%s%s\n", f.Key, help[f.Key], def)
	}
	if err := t.Flush(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// tidyEnvError writes one line for each error of package env, with the variable's name.
func tidyEnvError(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var lines []error
	for _, e := range all.Errors {
		var parse env.ParseError
		if errors.As(e, &parse) {
			lines = append(lines, fmt.Errorf("%s: %w", variableOf(parse.Name), parse.Err))
			continue
		}
		lines = append(lines, e)
	}
	return errors.Join(lines...)
}

// eachLine puts a prefix before each line of an error.
func eachLine(name string, err error) error {
	if !strings.Contains(err.Error(), "\n") {
		return fmt.Errorf("%s%w", name, err)
	}
	return errors.New(name + strings.ReplaceAll(err.Error(), "\n", "\n"+name))
}
