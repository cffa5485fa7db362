#!/usr/bin/python3
"""Cleans Nova's one-time-use devices: cleanup_listener.py NOVA_CONF COMMAND [ARG]...

COMMAND gets the provider's name, HOST_ADDRESS, and exits with 0 only when the device is clean."""
import fcntl
import logging
import os
import subprocess
import sys
import threading

from keystoneauth1 import loading
from oslo_config import cfg
import oslo_messaging

recheck = threading.Event()


class InstanceDeleted:
    filter_rule = oslo_messaging.NotificationFilter(event_type=r"^instance\.delete\.end$")

    def info(self, *_):
        recheck.set()  # it does not name the device: check all of them


def clean(placement, provider, command, lock):
    url = "/resource_providers/" + provider["uuid"]
    # The generation first, then the usages: a later allocation changes the generation.
    found = placement.get(url + "/inventories").json()
    if any(placement.get(url + "/usages").json()["usages"].values()):
        return
    for resource_class, inventory in found["inventories"].items():
        if inventory["reserved"] == inventory["total"]:
            logging.info("cleaning %s", provider["name"])
            if subprocess.run([*command, provider["name"]], pass_fds=[lock.fileno()]).returncode != 0:
                return logging.error("%s stays reserved", provider["name"])
            # Never with a generation read after the cleaning: 409 means to start over.
            inventory.update(reserved=0, resource_provider_generation=found["resource_provider_generation"])
            answer = placement.put(url + "/inventories/" + resource_class, json=inventory, raise_exc=False)
            logging.info("%s: %s", provider["name"], "available again" if answer.ok else answer.text)


def main(config_file, *command):
    logging.basicConfig(level=logging.INFO)
    lock = open(config_file)  # COMMAND inherits it: wait for one that still runs after a crash of this program
    fcntl.flock(lock, fcntl.LOCK_EX)
    conf = cfg.ConfigOpts()
    for options in (loading.register_auth_conf_options, loading.register_session_conf_options, loading.register_adapter_conf_options):
        options(conf, "placement")
    conf.set_default("service_type", "placement", "placement")
    conf([], default_config_files=[config_file])
    session = loading.load_session_from_conf_options(
        conf, "placement", auth=loading.load_auth_from_conf_options(conf, "placement"))
    placement = loading.load_adapter_from_conf_options(conf, "placement", session=session, default_microversion="1.26")

    oslo_messaging.set_transport_defaults(control_exchange="nova")
    oslo_messaging.get_notification_listener(  # the pool is a separate queue
        oslo_messaging.get_notification_transport(conf), [oslo_messaging.Target(topic="versioned_notifications")],
        [InstanceDeleted()], executor="threading", pool="cleanup").start()
    while True:
        recheck.clear()
        try:
            for provider in placement.get("/resource_providers?required=HW_PCI_ONE_TIME_USE").json()["resource_providers"]:
                clean(placement, provider, command, lock)
        except Exception:
            logging.exception("trying again later")
        recheck.wait(float(os.environ.get("POLL_SECONDS", "60")))


if __name__ == "__main__":
    main(*sys.argv[1:])
