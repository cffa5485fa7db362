// Package mutation holds no product code. Its tests take the rules that must never be
// lost out of the product, one at a time, and insist that a test of the package named
// turns red. The tree is not touched: the compiler is given an overlay.
package mutation
