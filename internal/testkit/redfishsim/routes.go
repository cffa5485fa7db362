package redfishsim

// table is every path of the service, for this configuration.
func (m *Machine) table() []route {
	var t routeTable
	c := &m.config
	get := func(pattern string, handler func(*call) answer) { t.add("GET", pattern, handler) }
	post := func(pattern string, handler func(*call) answer) { t.add("POST", pattern, handler) }

	get("/redfish", m.versionsDoc)
	get("/redfish/v1", m.rootDoc)
	get("/redfish/v1/SessionService", m.sessionServiceDoc)
	get(c.SessionsPath, m.sessionsDoc)
	post(c.SessionsPath, m.login)
	for i := range t {
		t[i].open = i != 2 && i != 3
	}
	get(c.SessionsPath+"/{}", m.sessionDoc)
	t.add("DELETE", c.SessionsPath+"/{}", m.logout)

	get("/redfish/v1/Systems", m.systemsDoc)
	get(m.system(""), m.systemDoc)
	post(m.system("Actions/ComputerSystem.Reset"), m.reset)
	get(m.system("Processors"), m.processorsDoc)
	get(m.system("Processors/{}"), m.processorDoc)
	get(m.system("Memory"), m.memoriesDoc)
	get(m.system("Memory/{}"), m.memoryDoc)
	if c.SecondSystem {
		get("/redfish/v1/Systems/"+secondSystem, m.secondSystemDoc)
	}

	get(m.system("Bios"), m.licensed(m.biosDoc))
	post(m.system("Bios/Actions/Bios.ResetBios"), m.licensed(m.resetBIOS))
	if !c.NoAttributes {
		get(m.system("Bios/"+c.BIOSSettings), m.licensed(m.settingsDoc))
		t.add("PATCH", m.system("Bios/"+c.BIOSSettings), m.licensed(m.matched(m.settingsDoc, m.patchSettings)))
	}
	get("/redfish/v1/Registries", m.registriesDoc)
	get("/redfish/v1/Registries/{}", m.registryFileDoc)
	get("/redfish/v1/Registries/{}/Registry", m.registryDoc)

	get(m.system("Storage"), m.storagesDoc)
	get(m.system("Storage/{}"), m.storageDoc)
	get(m.system("Storage/{}/Drives/{}"), m.driveDoc)
	get(m.system("Storage/{}/Volumes"), m.volumesDoc)
	get(m.system("Storage/{}/Volumes/{}"), m.volumeDoc)
	t.add("DELETE", m.system("Storage/{}/Volumes/{}"), m.deleteVolume)
	post(m.system("Storage/{}/Drives/{}/Actions/Drive.SecureErase"), m.secureErase)
	post(m.system("Storage/{}/Actions/Storage.ResetToDefaults"), m.resetToDefaults)

	get("/redfish/v1/Chassis", m.chassisListDoc)
	get(m.chassis(""), m.chassisDoc)
	get(m.chassis("Drives"), m.chassisDrivesDoc)
	get(m.chassis("Drives/{}"), m.driveDoc)
	post(m.chassis("Drives/{}/Actions/Drive.SecureErase"), m.secureErase)
	get(m.chassis("PCIeDevices"), m.pcieDevicesDoc)
	get(m.chassis("PCIeDevices/{}"), m.pcieDeviceDoc)

	get("/redfish/v1/Managers", m.managersDoc)
	get(m.manager(""), m.managerDoc)
	post(m.manager("Actions/Manager.Reset"), m.resetManager)

	get("/redfish/v1/TaskService", m.taskServiceDoc)
	get("/redfish/v1/TaskService/Tasks", m.tasksDoc)
	get("/redfish/v1/TaskService/Tasks/{}", m.taskDoc)
	get("/redfish/v1/TaskService/TaskMonitors/{}", m.monitorDoc)
	if c.JobIDs {
		post(m.system("Bios/Settings/Actions/Oem/DellManager.ClearPending"), m.clearPending)
		for _, jobs := range []string{"Jobs", "Oem/Dell/Jobs"} {
			get(m.manager(jobs), m.jobsDoc)
			post(m.manager(jobs), m.createJob)
			get(m.manager(jobs+"/{}"), m.jobDoc)
			t.add("DELETE", m.manager(jobs+"/{}"), m.deleteJob)
		}
	}

	get("/redfish/v1/UpdateService", m.updateServiceDoc)
	t.add("PATCH", "/redfish/v1/UpdateService", m.licensed(m.patchUpdateService))
	get("/redfish/v1/UpdateService/FirmwareInventory", m.inventoryDoc)
	get("/redfish/v1/UpdateService/FirmwareInventory/{}", m.softwareDoc)
	if c.UpdateState {
		get(updateQueue, m.queueDoc)
		get(updateQueue+"/{}", m.queuedDoc)
	}
	if !c.NoSimpleUpdate {
		post("/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", m.licensed(m.simpleUpdate))
	}
	if c.NeedsStartUpdate {
		post("/redfish/v1/UpdateService/Actions/UpdateService.StartUpdate", m.licensed(m.startUpdate))
	}
	if c.MultipartPath != "" {
		post(c.MultipartPath, m.licensed(m.multipartPush))
	}
	if c.PushPath != "" {
		post(c.PushPath, m.licensed(m.push))
	}
	return t
}

// licensed is handler where the BMC has a license for it.
func (m *Machine) licensed(handler func(*call) answer) func(*call) answer {
	return func(c *call) answer {
		if m.config.Unlicensed {
			return failure(403, "SMC.1.0.OemLicenseNotPassed", "Not licensed to perform this request. The following licenses "+
				"SFT-DCMS-SINGLE were needed")
		}
		return handler(c)
	}
}
