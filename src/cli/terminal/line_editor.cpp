#include "cli/terminal/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "cli/options/prompt_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "core/error.h"

namespace talon {
namespace {

/// Tells a reader that the terminal has another size. What a signal handler may touch is global,
/// and any thread may be the one that handles it.
std::atomic<int> size_event = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void on_resize(int) {
  const int problem = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(size_event, &one, sizeof(one));
  errno = problem;
}

bool took_resize() {
  std::uint64_t count = 0;
  return ::read(size_event, &count, sizeof(count)) == sizeof(count);
}

/// Has `handler` called when the terminal gets another size. Calls of the system go on after it.
void on_size_change(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, nullptr);
}

}  // namespace

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;

  Terminal() {
    if (!std::setlocale(LC_CTYPE, "") ||
        !std::string_view(std::setlocale(LC_CTYPE, nullptr)).ends_with("UTF-8")) {
      std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    editor = el_init("talon", stdin, stderr, stderr);
    history = history_init();
    if (!editor || !history) fail("chat: the line editor did not start");
    ::history(history, &event, H_SETSIZE, 500);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, &Terminal::prompt_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, history);
    size_event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (size_event < 0) return;  // a line keeps the size that it began with
    el_wset(editor, EL_GETCFN, &Terminal::read_key);
    on_size_change(on_resize);
  }
  ~Terminal() {
    if (size_event >= 0) {
      on_size_change(SIG_DFL);
      ::close(size_event.exchange(-1));
    }
    if (history) history_end(history);
    if (editor) el_end(editor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static char* prompt_of(EditLine* editor) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  /// As the editor's own function reads what is typed, but while it waits the line follows the size
  /// of the terminal. -1 with errno EINTR: interrupted.
  static int read_key(EditLine* editor, wchar_t* key) {
    pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {size_event, POLLIN, 0}};
    while (sources[0].revents == 0) {
      const bool waited = ::poll(sources, std::size(sources), -1) >= 0;
      const int problem = errno;
      const bool resized = took_resize();
      if (resized) draw_again(editor);
      const bool stops = interrupt_requested();
      errno = stops ? EINTR : problem;
      if (stops || (!waited && !resized)) return -1;
      if (!waited) sources[0].revents = 0;
    }
    errno = 0;
    el_wset(editor, EL_GETCFN, static_cast<el_rfunc_t>(EL_BUILTIN_GETCFN));
    const int count = el_wgetc(editor, key);
    el_wset(editor, EL_GETCFN, &Terminal::read_key);
    return count;
  }

  static void draw_again(EditLine* editor) {
    el_resize(editor);
    std::fputs(notes_can_rewrite() ? "\r\x1b[K" : "\n", stderr);
    el_wset(editor, EL_REFRESH);
  }

  Result read(std::string& line) {
    int count = 0;
    errno = 0;
    const char* text = el_gets(editor, &count);
    if (!text || count <= 0) {
      if (errno != EINTR) return Result::end;
      el_reset(editor);
      std::fputs("^C\n", stderr);
      return Result::interrupted;
    }
    line.assign(text, static_cast<std::size_t>(count));
    if (!line.empty() && line.back() == '\n') line.pop_back();
    if (!line.empty()) ::history(history, &event, H_ENTER, line.c_str());
    return Result::line;
  }
};

namespace {

/// Throws Error for a line longer than kMostTextBytes, of which no more is read.
bool read_line(std::istream& input, std::string& line) {
  line.clear();
  for (char c = 0; input.get(c);) {
    if (c == '\n') return true;
    line += c;
    if (line.size() > kMostTextBytes)
      fail("chat: expected a line of at most {} bytes, found more", kMostTextBytes);
  }
  return !line.empty();
}

}  // namespace

LineEditor::LineEditor() {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
    terminal_ = std::make_unique<Terminal>();
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  if (terminal_) {
    terminal_->prompt = prompt;
    return terminal_->read(line);
  }
  errno = 0;
  if (read_line(std::cin, line)) return Result::line;
  const bool interrupted = errno == EINTR && !std::cin.eof();
  std::cin.clear();
  return interrupted ? Result::interrupted : Result::end;
}

}  // namespace talon
