"""What cloud-init's source OpenStack finds at its metadata service, as JSON."""

import base64
import json
import sys

from cloudinit import helpers
from cloudinit.sources import DataSourceOpenStack

source = DataSourceOpenStack.DataSourceOpenStack({}, None, helpers.Paths({}))
if len(sys.argv) > 1:
    source.ds_cfg = {"metadata_urls": sys.argv[1:]}
found = source._crawl_metadata()
json.dump({"version": found["version"], "metadata": found["metadata"], "userdata": base64.b64encode(found["userdata"] or b"").decode() if found["userdata"] else ""}, sys.stdout)
