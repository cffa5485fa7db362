// Package mutation holds no product code. Its tests remove the promises that must never be
// lost from the product, one at a time, and require that a test of the named package fails.
// The tree is not changed: the compiler reads an overlay.
package mutation
