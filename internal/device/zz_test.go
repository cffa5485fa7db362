package device
import ("testing";"time")
func TestZZ(t *testing.T){
 for _,s:=range settings(){ b:=time.Now(); g:=explore(table,s); t.Log(describe(s),len(g.places),len(g.steps),len(g.refused),time.Since(b)) }
}
