package metadata

// Latest is the version whose document is always the newest.
const Latest = "latest"

// Versions are those of Nova's metadata whose documents have the devices, the oldest first and
// Latest behind them. Every one of them holds the same document.
func Versions() []string {
	return []string{"2016-06-30", "2016-10-06", "2017-02-22", "2018-08-27", "2020-10-14", Latest}
}
