// Package browser drives Debian's chromium-headless-shell for tests, over the two pipes of its
// DevTools protocol: no port is opened, and no other program can reach it. It does not know
// the testing package: each function returns its error.
//
//	b, err := browser.Start(dir)
//	page, err := b.Open(ctx, "http://127.0.0.1:8233/")
//	err = page.Run(ctx, `document.title`, &title)
//	err = b.Close()
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"burnish/internal/testkit/proc"
)

// Program is the browser; deploy/setup-test.sh installs it.
const Program = "/usr/bin/chromium-headless-shell"

// Browser is one running browser with a profile of its own. A page is used by one goroutine at
// a time.
type Browser struct {
	process *proc.Process
	out     *os.File

	mu      sync.Mutex
	number  int
	waiting map[int]chan<- reply
	ended   error
}

// call is a command of the DevTools protocol, and reply its answer.
type call struct {
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
	Session string `json:"sessionId,omitempty"`
}

type reply struct {
	ID     int
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts a browser whose files are in dir, with these further arguments.
func Start(dir string, args ...string) (b *Browser, err error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	cmd := exec.Command(Program, append([]string{
		"--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--lang=en-US", "--hide-scrollbars", "--force-device-scale-factor=1", "--disable-dev-shm-usage",
	}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "TZ=UTC", "LANG=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{inRead, outWrite} // its descriptors 3 and 4
	process, err := proc.Start("the browser", filepath.Join(dir, "browser.log"), cmd)
	err = errors.Join(err, inRead.Close(), outWrite.Close())
	if err != nil {
		return nil, errors.Join(err, process.Kill(), inWrite.Close(), outRead.Close())
	}
	b = &Browser{process: process, out: inWrite, waiting: map[int]chan<- reply{}}
	go b.read(outRead)
	return b, nil
}

// read hands each answer to the call that waits for it. Events are not used.
func (b *Browser) read(from *os.File) {
	defer from.Close()
	messages := bufio.NewReader(from)
	for {
		message, err := messages.ReadBytes(0)
		var r reply
		if err == nil {
			err = json.Unmarshal(message[:len(message)-1], &r)
		}
		b.mu.Lock()
		if err != nil {
			b.ended = fmt.Errorf("the browser ended: %w", err)
			for _, one := range b.waiting {
				close(one)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		if one, ok := b.waiting[r.ID]; ok {
			delete(b.waiting, r.ID)
			one <- r
		}
		b.mu.Unlock()
	}
}

// ask sends a command, and reads the result into out unless that is nil.
func (b *Browser) ask(ctx context.Context, session, method string, params, out any) error {
	answer := make(chan reply, 1)
	if err := b.send(call{Method: method, Params: params, Session: session}, answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: the browser does not answer: %w", method, ctx.Err())
	case r, ok := <-answer:
		switch {
		case !ok:
			b.mu.Lock()
			defer b.mu.Unlock()
			return fmt.Errorf("%s: %w: %s", method, b.ended, b.process.Tail())
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case out == nil:
			return nil
		}
		return json.Unmarshal(r.Result, out)
	}
}

func (b *Browser) send(c call, answer chan<- reply) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return b.ended
	}
	b.number++
	c.ID = b.number
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	b.waiting[c.ID] = answer
	_, err = b.out.Write(append(text, 0))
	return err
}

// Close ends the browser.
func (b *Browser) Close() error { return errors.Join(b.process.KillGroup(), b.out.Close()) }

// Page is one tab.
type Page struct {
	browser *Browser
	session string
}

// Size of every page.
const width, height = 1280, 1080

// Open opens an address in a new tab.
func (b *Browser) Open(ctx context.Context, address string) (*Page, error) {
	var target struct{ TargetID string }
	if err := b.ask(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	if err := b.ask(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
		&attached); err != nil {
		return nil, err
	}
	p := &Page{b, attached.SessionID}
	if err := b.ask(ctx, p.session, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil); err != nil {
		return nil, err
	}
	return p, p.Go(ctx, address)
}

// Go opens an address in the tab. It may return before the page is complete.
func (p *Page) Go(ctx context.Context, address string) error {
	var went struct{ ErrorText string }
	err := p.browser.ask(ctx, p.session, "Page.navigate", map[string]any{"url": address}, &went)
	if err == nil && went.ErrorText != "" {
		err = fmt.Errorf("open %s: %s", address, went.ErrorText)
	}
	return err
}

// Run evaluates an expression of JavaScript in the page, and reads its value into out unless
// that is nil. It waits for a promise.
func (p *Page) Run(ctx context.Context, expression string, out any) error {
	var got struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.browser.ask(ctx, p.session, "Runtime.evaluate",
		map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &got)
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", got.ExceptionDetails.Text, got.ExceptionDetails.Exception.Description)
	case out == nil:
		return nil
	case got.Result.Value == nil:
		return errors.New("the page gives no value")
	}
	return json.Unmarshal(got.Result.Value, out)
}

// Type sends text to the element that has the focus, as a keyboard would.
func (p *Page) Type(ctx context.Context, text string) error {
	return p.browser.ask(ctx, p.session, "Input.insertText", map[string]any{"text": text}, nil)
}

// Picture is a part of what the page shows, as a PNG.
func (p *Page) Picture(ctx context.Context, x, y, width, height float64) ([]byte, error) {
	var got struct{ Data string }
	err := p.browser.ask(ctx, p.session, "Page.captureScreenshot", map[string]any{"format": "png",
		"clip": map[string]any{"x": x, "y": y, "width": width, "height": height, "scale": 1}}, &got)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(got.Data)
}
