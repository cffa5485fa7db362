// Package mutation holds no product code. Its tests take the promises that must never be
// lost out of the product, one at a time, and demand that a test of the named package
// fails. The tree is not touched: the compiler reads an overlay.
package mutation
