package hardware

import "unsafe"

// AlignedBuffer returns n bytes that start at a multiple of Align, as O_DIRECT requires.
func AlignedBuffer(n int) []byte {
	raw := make([]byte, n+Align)
	skip := 0
	if rest := int(uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % Align); rest != 0 {
		skip = Align - rest
	}
	return raw[skip : skip+n : skip+n]
}
