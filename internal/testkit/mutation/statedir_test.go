package mutation

// stateDirMutations take out what ties a state directory to one server.
var stateDirMutations = []mutation{}
