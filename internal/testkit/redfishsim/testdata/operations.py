"""Drives one BMC through python3-sushy, Ironic's Redfish client.

usage: operations.py URL USER PASSWORD CA SYSTEM IMAGE_URL IMAGE_VERSION

Each operation prints one line: its name, and what the client saw, as JSON.
"""

import json
import sys
import time

import sushy
from sushy import auth
from sushy import exceptions
from sushy import taskmonitor

# Debian's package has no standard message registries, which the library reads
# together with those of the BMC.
sushy.main.Sushy._get_standard_message_registry_collection = lambda _: []

URL, USER, PASSWORD, CA, SYSTEM, IMAGE_URL, VERSION = sys.argv[1:]


def say(name, **what):
    print(name, json.dumps(what, sort_keys=True), flush=True)


def await_(what, condition):
    """Polls until condition returns something true."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        seen = condition()
        if seen:
            return seen
        time.sleep(0.01)
    raise SystemExit('waited in vain for ' + what)


def connect():
    return sushy.Sushy(URL, verify=CA, auth=auth.SessionAuth(USER, PASSWORD))


def started(system):
    """Is true once POST has ended, as each vendor shows it."""
    system.refresh(force=True)
    if system.power_state != sushy.PowerState.ON:
        return False
    progress = system.json.get('BootProgress')
    if progress:
        return progress['LastState'] in (
            'OSRunning', 'SystemHardwareInitializationComplete')
    return system.json['Oem']['Hpe']['PostState'] in (
        'FinishedPost', 'InPostDiscoveryComplete')


def state_of(monitor):
    """The state of a task. The monitor's own is_processing is only the status
    202, which not each BMC answers while a task runs."""
    task = monitor.get_task()
    return task.task_state, task.task_status


def follow(root, response, target):
    """Follows the task of a response to its end; None where there is none."""
    if response.status_code != 202:
        return None
    monitor = taskmonitor.TaskMonitor.from_response(
        root._conn, response, target)
    await_('the task to end', lambda: (
        state_of(monitor)[0] == sushy.TASK_STATE_COMPLETED))
    return state_of(monitor)[1] == sushy.HEALTH_OK


def systems(root):
    system = root.get_system(SYSTEM)
    say('system', serial=system.serial_number, maker=system.manufacturer,
        sku=system.sku, bios=system.bios_version,
        power=system.power_state.value,
        memory=system.memory_summary.size_gib,
        threads=system.processors.summary.count,
        cores=sum(cpu.total_cores for cpu in system.processors.get_members()))
    chassis = root.get_chassis_collection().get_members()[0]
    manager = root.get_manager_collection().get_members()[0]
    say('around', chassis=chassis.serial_number,
        manager=manager.manager_type.value,
        found=[s.path for s in root.get_system_collection().get_members()])
    return system


def power(system):
    allowed = system.get_allowed_reset_system_values()
    system.reset_system(sushy.ResetType.FORCE_OFF)
    await_('off', lambda: (system.refresh(force=True) or
                           system.power_state == sushy.PowerState.OFF))
    refused = None
    try:
        system.reset_system(sushy.ResetType.FORCE_OFF)
    except exceptions.HTTPError as e:
        refused = e.status_code
    system.reset_system(sushy.ResetType.ON)
    await_('the end of POST', lambda: started(system))
    say('power', state=system.power_state.value, refused=refused,
        allowed=sorted(v.value for v in allowed))


def bios(system):
    settings = system.bios
    before = settings.attributes
    if before is None:
        settings.reset_bios()
        say('bios', attributes=False)
        return
    registry = settings.get_attribute_registry()
    defaults = {a.name: a.default_value
                for a in registry.registry_entries.attributes
                if not a.read_only}
    apply_time = None
    if settings.supported_apply_times:
        apply_time = sushy.ApplyTime.ON_RESET
    settings.set_attribute('SriovGlobalEnable', 'Disabled',
                           apply_time=apply_time)
    pending = settings.pending_attributes['SriovGlobalEnable']
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    await_('the end of POST', lambda: started(system))
    await_('the setting', lambda: (
        settings.refresh(force=True) or
        settings.attributes['SriovGlobalEnable'] == 'Disabled'))
    settings.reset_bios()
    settings.refresh(force=True)
    wanted_only = settings.attributes['BootMode'] == before['BootMode']
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    await_('the end of POST', lambda: started(system))
    settings.refresh(force=True)
    say('bios', attributes=True, pending=pending, wanted_only=wanted_only,
        before=before['WorkloadProfile'],
        at_default=all(settings.attributes[n] == v
                       for n, v in defaults.items()))


def firmware(root):
    update = root.get_update_service()
    entries = update.firmware_inventory.get_members()
    bios_entry = [e for e in entries if e.updateable and
                  e.version == root.get_system(SYSTEM).bios_version]
    say('inventory', entries=sorted(e.name for e in entries),
        bios=len(bios_entry))
    if not update._actions.simple_update:
        return
    try:
        monitor = update.simple_update(IMAGE_URL,
                                       targets=[bios_entry[0].path])
        await_('the update, or that it waits', lambda: (
            state_of(monitor)[0] in (sushy.TASK_STATE_COMPLETED,
                                     sushy.TASK_STATE_STARTING,
                                     sushy.TASK_STATE_PENDING)))
    except exceptions.MissingHeaderError:
        # No task: what there is to see is in the update service.
        monitor = None
        await_('its end', lambda: (
            update.refresh(force=True) or
            update.json['Oem']['Hpe']['State'] == 'Complete'))
    system = root.get_system(SYSTEM)
    system.refresh(force=True)
    staged = system.bios_version != VERSION
    if staged:
        system.reset_system(sushy.ResetType.FORCE_RESTART)
        await_('the end of POST', lambda: started(system))
    await_('the version', lambda: (system.refresh(force=True) or
                                   system.bios_version == VERSION))
    # Entries may have other names now.
    running = [e for e in
               root.get_update_service().firmware_inventory.get_members()
               if e.version == VERSION]
    end = None
    if monitor:
        await_('its task', lambda: (
            state_of(monitor)[0] == sushy.TASK_STATE_COMPLETED))
        end = [v.value for v in state_of(monitor)]
    say('update', staged=staged, task=monitor is not None, end=end,
        running=len(running))


def drives(root, system):
    found = {}
    for storage in system.storage.get_members():
        for drive in storage.drives:
            found[drive.serial_number.strip()] = drive
    for path in root._conn.get(
            root.get_chassis_collection().get_members()[0]
            .json['Drives']['@odata.id']).json()['Members']:
        drive = storage.get_drive(path['@odata.id'])
        found.setdefault(drive.serial_number.strip(), drive)
    tasks = 0
    for drive in found.values():
        action = drive.json['Actions']['#Drive.SecureErase']['target']
        response = root._conn.post(action, data={})
        if follow(root, response, action):
            tasks += 1
        await_('the erase', lambda: (
            drive.refresh(force=True) or not drive.json.get('Operations')))
    say('drives', count=len(found), tasks=tasks,
        bytes=sum(d.capacity_bytes for d in found.values()))


def main():
    root = connect()
    system = systems(root)
    power(system)
    bios(system)
    firmware(root)
    drives(root, system)
    sessions = root.get_session_service().sessions.get_members()
    say('sessions', open=len(sessions))
    # sushy re-authenticates when the BMC no longer knows its session.
    root._conn.delete(sessions[0].path)
    system.refresh(force=True)
    say('again', power=system.power_state.value)
    root._auth.close()


main()
