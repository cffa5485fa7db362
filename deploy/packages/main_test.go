package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/openapi/openapitest"
)

// root is the repository's.
var root, _ = filepath.Abs("../..")

// made is where all packages of the version 1.2.3 are, which the first test makes.
var made string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "burnish-packages-test-")
	if err == nil {
		made = filepath.Join(dir, "made")
		err = os.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	}
	if err == nil {
		err = run([]string{"-root", root, "-out", made, "-version", "1.2.3"})
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "packages:", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		code = 1
	}
	os.Exit(code)
}

// Made again, everything has the same bytes.
func TestEverythingIsReproducible(t *testing.T) {
	again := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	require.NoError(t, run([]string{"-root", root, "-out", again, "-version", "1.2.3"}))
	want, err := os.ReadFile(filepath.Join(made, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, 12, strings.Count(string(want), "\n"))
	got, err := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	checked, err := command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	require.NoError(t, err, checked)
}

// Built by somebody else, elsewhere and from nothing, the programs have the same bytes. (burnish-devserver,
// which takes minutes, is built with the same flags.)
func TestProgramsAreReproducible(t *testing.T) {
	elsewhere := t.TempDir()
	const copyTo = `cd "$1" && git ls-files -z -co --exclude-standard | cpio -0pd --quiet "$2"`
	copied, err := exec.Command("bash", "-c", copyTo, "bash", root, elsewhere).CombinedOutput()
	require.NoError(t, err, "%s", copied)
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	require.NoError(t, err)
	for program, in := range map[string]string{"burnish": "./starter", "burnish-worker": "./worker"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "-ldflags",
			"-s -w -X main.version="+strings.TrimSpace(string(version)), in)
		build.Dir = elsewhere
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+filepath.Join(elsewhere, "cache"))
		words, err := build.CombinedOutput()
		require.NoError(t, err, "%s", words)
		same := exec.Command("cmp", filepath.Join(elsewhere, program), filepath.Join(root, "bin", program))
		words, err = same.CombinedOutput()
		require.NoError(t, err, "%s", words)
	}
}

// command runs a program where the packages are.
func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = made
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// Nothing in a package belongs to somebody else than root, or may be written by others; settings, which
// may hold secrets, are root's alone, and configuration is kept as such.
func TestDebianPackages(t *testing.T) {
	for program, settings := range map[string][]string{
		"burnish": nil, "burnish-devserver": nil,
		"burnish-worker": {
			"/etc/burnish/control.env", "/etc/burnish/host.env", "/etc/burnish/host.yaml",
			"/etc/udev/rules.d/59-burnish-nvme.rules",
		},
	} {
		file := program + "_1.2.3_amd64.deb"
		listed, err := command("dpkg-deb", "--contents", file)
		require.NoError(t, err, listed)
		for line := range strings.Lines(listed) {
			require.Regexp(t, `^[d-][r-][w-][x-][r-]-[x-][r-]-[x-] root/root `, line)
			require.Equal(t, strings.Contains(line, ".env"), strings.HasPrefix(line, "-rw------- "), line)
		}
		require.Contains(t, listed, " ./usr/bin/"+program+"\n")
		require.Contains(t, listed, " ./usr/share/doc/"+program+"/copyright\n")
		kept, err := command("dpkg-deb", "--info", file, "conffiles")
		if settings == nil {
			require.Error(t, err, kept)
			continue
		}
		require.NoError(t, err, kept)
		require.ElementsMatch(t, settings, strings.Fields(kept))
	}
	listed, err := command("dpkg-deb", "--contents", "burnish_1.2.3_amd64.deb")
	require.NoError(t, err)
	for _, name := range []string{
		"man/man1/burnish-bind.1", "bash-completion/completions/burnish", "zsh/vendor-completions/_burnish",
		"fish/vendor_completions.d/burnish.fish", "doc/burnish/install.md",
	} {
		require.Contains(t, listed, " ./usr/share/"+name+"\n")
	}
}

// RPM packages hold the same files, and their scripts are valid.
func TestRPMPackages(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("rpm is not installed: deploy/setup-test.sh installs it")
	}
	for _, program := range []string{"burnish", "burnish-worker", "burnish-devserver"} {
		rpm := func(args ...string) string {
			text, err := command("rpm", append(args, program+"-1.2.3-1.x86_64.rpm")...)
			require.NoError(t, err, text)
			return text
		}
		rpm("--checksig", "--nosignature")
		listed, err := command("dpkg-deb", "--contents", program+"_1.2.3_amd64.deb")
		require.NoError(t, err)
		var files []string
		for _, found := range regexp.MustCompile(`(?m)^-\S+ .* \.(/\S+)$`).FindAllStringSubmatch(listed, -1) {
			files = append(files, strings.Replace(found[1], "/zsh/vendor-completions/", "/zsh/site-functions/", 1))
		}
		var dirs []string
		if program == "burnish-worker" {
			dirs = []string{"/etc/burnish"}
		}
		require.ElementsMatch(t, append(dirs, files...), strings.Fields(rpm("--query", "--list", "--package")))
		scripts := rpm("--query", "--scripts", "--package")
		require.Equal(t, program != "burnish", strings.Contains(scripts, "systemctl"), scripts)
	}
}

// An image is valid, belongs to no root, and its program runs with nothing else.
func TestImages(t *testing.T) {
	for _, program := range []string{"burnish", "burnish-worker", "burnish-devserver"} {
		dir := filepath.Join(t.TempDir(), "layout")
		archive, err := os.Open(filepath.Join(made, program+"_1.2.3_amd64.oci.tar"))
		require.NoError(t, err)
		unpack(t, archive, dir)
		require.NoError(t, archive.Close())
		index, err := layout.ImageIndexFromPath(dir)
		require.NoError(t, err)
		require.NoError(t, validate.Index(index))
		manifest, err := index.IndexManifest()
		require.NoError(t, err)
		require.Len(t, manifest.Manifests, 1)
		require.Equal(t, "1.2.3", manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
		image, err := index.Image(manifest.Manifests[0].Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, "65532:65532", config.Config.User)
		layers, err := image.Layers()
		require.NoError(t, err)
		require.Len(t, layers, 1)
		if os.Getuid() != 0 {
			t.Log("the program is not run: only root can change its root")
			continue
		}
		files, err := layers[0].Uncompressed()
		require.NoError(t, err)
		rootDir := filepath.Join(t.TempDir(), "root")
		unpack(t, files, rootDir)
		require.NoError(t, files.Close())
		cmd := exec.Command(config.Config.Entrypoint[0], "--version")
		cmd.Dir, cmd.Env = "/", config.Config.Env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: rootDir, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
		words, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", words)
		require.Contains(t, string(words), program+" ")
	}
}

// unpack makes the folders and files of a tar below dir, for all to read.
func unpack(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	for files := tar.NewReader(archive); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, f.Name)
		if f.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		text, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, os.FileMode(f.Mode)))
	}
}

// The list of a program's parts has each module that it was built from, in the version of go.mod.
func TestTheListOfParts(t *testing.T) {
	file, err := os.Open(filepath.Join(made, "burnish-worker_1.2.3.cdx.json"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	versions := map[string]string{}
	for _, c := range *bom.Components {
		require.Equal(t, "pkg:golang/"+c.Name+"@"+c.Version, c.PackageURL)
		versions[c.Name] = c.Version
	}
	modules, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for _, name := range []string{"go.temporal.io/sdk", "golang.org/x/sys", "google.golang.org/grpc"} {
		require.Contains(t, string(modules), "\t"+name+" "+versions[name])
	}
	require.Contains(t, string(modules), "\ngo "+versions["std"]+"\n")
}

// exposure is what `systemd-analyze security` may say of each unit, in tenths.
var exposure = map[string]int{"control": 30, "host": 47, "devserver": 30}

// Units are valid, and as closed as the page says.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: deploy/setup-test.sh installs it with systemd")
	}
	for worker, most := range exposure {
		words, err := command("systemd-analyze", "security", "--offline=true", fmt.Sprint("--threshold=", most),
			filepath.Join(root, "deploy/systemd/burnish-"+worker+".service"))
		require.NoError(t, err, words)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("%.1f for the host worker", float64(exposure["host"])/10))
}

// The Deployment is one that Kubernetes takes, of this version's image.
func TestTheDeploymentIsValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes/control.yaml"))
	require.NoError(t, err)
	schema := deploymentSchema(t)
	check := func(text string) error {
		var deployment any
		require.NoError(t, yaml.Unmarshal([]byte(text), &deployment))
		return schema.Validate(deployment)
	}
	require.NoError(t, check(string(text)))
	for _, wrong := range [][2]string{
		{"replicas: 2", "replicas: two"}, {"replicas: 2", "replica: 2"}, {"- name: worker", "- title: worker"},
		{"runAsNonRoot: true", "runAsNonroot: true"}, {"containerPort: 9464", "containerPort: {}"},
	} {
		require.Contains(t, string(text), wrong[0])
		require.Error(t, check(strings.Replace(string(text), wrong[0], wrong[1], 1)), wrong[1])
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	require.NoError(t, err)
	require.Contains(t, string(text), "image: burnish-worker:"+strings.TrimSpace(string(version))+"\n")
}

// deploymentSchema is Kubernetes' own description of a Deployment. Fields that it does not name are
// refused, as by `kubectl apply --validate=strict`.
func deploymentSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	groups, err := openapitest.NewEmbeddedFileClient().Paths()
	require.NoError(t, err)
	text, err := groups["apis/apps/v1"].Schema("application/json")
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(text, &document))
	for _, s := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		if object := s.(map[string]any); object["properties"] != nil {
			object["additionalProperties"] = false
		}
	}
	closed, err := json.Marshal(document)
	require.NoError(t, err)
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(closed))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("apps.json", resource))
	schema, err := compiler.Compile("apps.json#/components/schemas/io.k8s.api.apps.v1.Deployment")
	require.NoError(t, err)
	return schema
}
