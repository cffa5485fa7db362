package host
import ("testing";"strings";"time")
func TestZZ(t *testing.T){
 for _, s := range []string{"[", "{", "- ", "a: {", "? ", "!!x ", "&a ", "\"", "- - "} {
  st := time.Now()
  _, err := parseRules("f", []byte(strings.Repeat(s, largestRules/len(s))))
  m := ""; if err != nil { m = err.Error() }
  if len(m)>100 {m=m[:100]}
  t.Log(s, time.Since(st), m)
 }
}
