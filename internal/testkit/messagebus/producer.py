"""Sends notifications with the library and the settings that Nova uses.

Arguments: transport_url, control_exchange, topic. One JSON object a line on stdin:
event_type, payload, publisher_id, priority (info, error), timestamp (ISO, optional).
One line of JSON a notification on stdout: the warnings of oslo.messaging.
"""

import datetime
import json
import logging
import sys

from oslo_config import cfg
import oslo_messaging
from oslo_utils import timeutils


class Warnings(logging.Handler):
    """Keeps what the library logs: a dropped notification is reported only there."""

    def __init__(self):
        super().__init__(level=logging.WARNING)
        self.all = []

    def emit(self, record):
        text = record.getMessage()
        if record.exc_info:
            text += ": %r" % (record.exc_info[1],)
        self.all.append(text)


def main():
    url, exchange, topic = sys.argv[1:]
    warnings = Warnings()
    logging.getLogger().addHandler(warnings)

    # As nova.rpc.init() and nova.config do it.
    oslo_messaging.set_transport_defaults(control_exchange=exchange)
    conf = cfg.ConfigOpts()
    conf([], project="nova")
    transport = oslo_messaging.get_notification_transport(conf, url=url)
    notifier = oslo_messaging.Notifier(
        transport, driver="messagingv2", topics=[topic], retry=-1)

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("timestamp"):
            at = datetime.datetime.fromisoformat(request["timestamp"])
            timeutils.set_time_override(at)
        else:
            timeutils.clear_time_override()
        warnings.all.clear()
        prepared = notifier.prepare(publisher_id=request["publisher_id"])
        send = getattr(prepared, request["priority"])
        send({}, request["event_type"], request["payload"])
        print(json.dumps({"warnings": warnings.all}), flush=True)
    transport.cleanup()


if __name__ == "__main__":
    main()
