"""Prints the devices that Nova's own code puts into meta_data.json, for a domain as libvirt
prints it. Input: {"domain": XML, "nics": {MAC: tag}, "disks": {target: [tag, volume]},
"host_macs": {host's PCI address: MAC}, "buses": [[bus, address]]}. "buses" are NICs made of
Nova's objects alone; for each it prints the entry, or why Nova refuses the address."""
import json
import sys
from types import SimpleNamespace
from unittest import mock

from nova import objects
from nova.api.metadata import base
from nova.pci import utils as pci_utils
from nova.virt.libvirt import driver

VERSION = "2018-08-27"  # the newest that cloud-init knows
objects.register_all()
given = json.load(sys.stdin)


def devices_of(metadata):
    """As meta_data.json has them."""
    reader = object.__new__(base.InstanceMetadata)
    reader.instance = SimpleNamespace(device_metadata=metadata)
    return base.InstanceMetadata._get_device_metadata(reader, VERSION)


def mac_of(address, pf_interface=False):
    """In place of the host's sysfs."""
    return given["host_macs"][address]


class Tagged(SimpleNamespace):
    """A row of Nova's database."""

    def __contains__(self, key):
        return key in self.__dict__


nics = [Tagged(address=mac, tag=tag) for mac, tag in given["nics"].items()]
disks = [Tagged(device_name="/dev/" + target, tag=tag, volume_id=volume) for target, (tag, volume) in given["disks"].items()]
hypervisor = object.__new__(driver.LibvirtDriver)
hypervisor._host = SimpleNamespace(get_guest=lambda _: SimpleNamespace(get_xml_desc=lambda: given["domain"]))
instance = SimpleNamespace(uuid="11111111-2222-3333-4444-555555555555", info_cache=SimpleNamespace(network_info=[]))
with mock.patch.object(objects.VirtualInterfaceList, "get_by_instance_uuid", return_value=nics), \
        mock.patch.object(objects.BlockDeviceMappingList, "get_by_instance_uuid", return_value=disks), \
        mock.patch.object(pci_utils, "get_mac_by_pci_address", mac_of):
    built = hypervisor._build_device_metadata(None, instance)

buses = []
for bus, address in given["buses"]:
    device = objects.DiskMetadata(tags=["t"])
    try:
        device.bus = {"pci": objects.PCIDeviceBus, "usb": objects.USBDeviceBus, "scsi": objects.SCSIDeviceBus,
                      "ide": objects.IDEDeviceBus, "xen": objects.XenDeviceBus}[bus](address=address)
        buses.append(devices_of(objects.InstanceDeviceMetadata(devices=[device]))[0])
    except ValueError as problem:
        buses.append({"refused": str(problem)})
json.dump({"devices": devices_of(built), "buses": buses}, sys.stdout)
