// Package configdrive makes the image of a config drive, by which a guest reads its metadata
// document without a network (S1.23): ISO 9660 with Rock Ridge and Joliet, with the label that
// cloud-init looks for, and the same bytes for the same document at the same time.
package configdrive
