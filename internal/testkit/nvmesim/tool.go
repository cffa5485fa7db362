package nvmesim

import (
	"os"
	"path/filepath"
	"strings"
)

// toolFile is the file of a host that holds the command line of its nvme-cli, an argument a line.
const toolFile = "nvme-cli"

// Unpacked is the environment variable with the folder of an unpacked nvme-cli, with its
// libraries, to run in place of the machine's own.
const Unpacked = "BURNISH_TEST_NVME_CLI"

// toolCommand is how nvme-cli is run. An unpacked one is run by its own loader with its own
// libraries.
func toolCommand() []string {
	root := os.Getenv(Unpacked)
	if root == "" {
		return []string{"/usr/sbin/nvme"}
	}
	var libraries []string
	loader := ""
	for _, below := range []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"} {
		dir := filepath.Join(root, below)
		libraries = append(libraries, dir)
		if path := filepath.Join(dir, "ld-linux-x86-64.so.2"); loader == "" {
			if _, err := os.Stat(path); err == nil {
				loader = path
			}
		}
	}
	return []string{loader, "--library-path", strings.Join(libraries, ":"), filepath.Join(root, "usr/sbin/nvme")}
}

// toolOf reads the command line of a host's nvme-cli.
func toolOf(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, toolFile))
	return strings.Split(string(text), "\n"), err
}
