"""What openstacksdk sees of the API, as one JSON object: clients.py UUID-TO-CLEAN UUID."""
import json
import sys

import openstack

to_clean, other = sys.argv[1:]
accelerator = openstack.connect().accelerator
seen = {
    "endpoint": accelerator.get_endpoint(),
    "max_microversion": ".".join(map(str, accelerator.get_endpoint_data().max_microversion)),
    "all": [d.uuid for d in accelerator.devices()],
    "pages": [d.uuid for d in accelerator.devices(limit=2)],
    "device": {k: v for k, v in accelerator.get_device(to_clean).to_dict().items() if k != "location"},
}


def ask(method, path, **more):
    answer = getattr(accelerator, method)(path, **more)
    return {
        "status": answer.status_code,
        "version": answer.headers.get("OpenStack-API-Version"),
        "body": answer.json() if answer.content else None,
    }


path = "/devices/" + to_clean
seen["old"] = ask("get", path)
seen["new"] = ask("get", path, microversion="2.1")
seen["too_new"] = ask("get", path, microversion="2.99")
seen["old_clean"] = ask("post", path + "/clean")
seen["clean"] = ask("post", path + "/clean", microversion="2.1", json={"reason": "by openstacksdk"})
seen["refused_clean"] = ask("post", "/devices/" + other + "/clean", microversion="2.1")
seen["unknown"] = ask("get", "/devices/00000000-0000-4000-8000-000000000000")
json.dump(seen, sys.stdout)
