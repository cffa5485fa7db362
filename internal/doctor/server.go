package doctor

import "burnish/internal/host"

// serverOf compares the server with the one that the state directory belongs to: a worker
// does not start against another.
func (m machine) serverOf(dir string) {
	const check = "state directory"
	recorded, found, err := host.RecordedServer(dir)
	switch here := m.server; {
	case err != nil:
		m.Fail(check, "restore "+dir+" from a backup, or move it away: then its devices are unknown and held for the "+
			"operator", "%v", err)
	case !found:
		m.OK(check, "%s belongs to no Temporal server yet: the first worker that uses it records its own", dir)
	case here == host.Server{}:
		m.OK(check, "%s belongs to Temporal cluster %s, namespace %s", dir, recorded.Cluster, recorded.Namespace)
	case here != recorded:
		m.Fail(check,
			"set TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE; or, if this server takes over, start the worker once with "+
				host.AcceptServer+"="+here.String(),
			"%s belongs to Temporal cluster %s, namespace %s, and this server is cluster %s, namespace %s: no worker starts",
			dir, recorded.Cluster, recorded.Namespace, here.Cluster, here.Namespace)
	default:
		m.OK(check, "%s belongs to this server: Temporal cluster %s, namespace %s", dir, here.Cluster, here.Namespace)
	}
}
