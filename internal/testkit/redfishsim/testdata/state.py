"""Shows how a server is set up, as python3-sushy, Ironic's Redfish client,
reads it.

usage: state.py URL USER PASSWORD CA SYSTEM

One line of JSON says what the client saw.
"""

import json
import sys

import sushy
from sushy import auth
from sushy import exceptions

# Debian's package has no standard message registries, which the library reads
# together with those of the BMC.
sushy.main.Sushy._get_standard_message_registry_collection = lambda _: []

URL, USER, PASSWORD, CA, SYSTEM = sys.argv[1:]


def members(root, collection):
    """What the library has no class for, by its connection."""
    return [root._conn.get(member['@odata.id']).json()
            for member in root._conn.get(collection).json()['Members']]


def secure_boot(system):
    try:
        one = system.secure_boot
    except exceptions.MissingAttributeError:
        return None
    return {'enabled': one.enabled, 'mode': one.mode.value}


def main():
    root = sushy.Sushy(URL, verify=CA, auth=auth.SessionAuth(USER, PASSWORD))
    system = root.get_system(SYSTEM)
    accounts = members(root, '/redfish/v1/AccountService/Accounts')
    subscriptions = members(root, '/redfish/v1/EventService/Subscriptions')
    print(json.dumps({
        'power': system.power_state.value,
        'bios': system.bios_version,
        'override': system.boot.enabled.value,
        'order': system.json['Boot'].get('BootOrder'),
        'secure_boot': secure_boot(system),
        'media': [m.image for manager in system.managers
                  for m in manager.virtual_media.get_members()],
        'accounts': {a['UserName']: a['RoleId'] for a in accounts
                     if a['UserName']},
        'subscriptions': [s['Destination'] for s in subscriptions],
        'sessions': len(root.get_session_service().sessions.get_members()),
    }))
    root._auth.close()


main()
