#include "net/http_transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <memory>

#include "core/error.h"

namespace talon {
namespace {

struct CleanHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeText {
  void operator()(char* text) const { curl_free(text); }
};
struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

constexpr long kMostRedirections = 20;
constexpr const char* kUserAgent = "talon";  // some servers refuse those that name none

/// What the library's callbacks are given. Exceptions may not pass through it.
struct Running {
  const HttpTransfer& transfer;
  CURL* handle;
  std::exception_ptr thrown = nullptr;

  int status() const {
    long code = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
  /// What `call` returns; false if it throws.
  template <typename Call>
  bool guarded(Call call) noexcept {
    try {
      return call();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
};

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* context) {
  auto& running = *static_cast<Running*>(context);
  const std::string_view piece(data, size * count);
  const bool goes_on =
      running.guarded([&] { return running.transfer.on_data(running.status(), piece); });
  return goes_on ? piece.size() : 0;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* context) {
  auto& running = *static_cast<Running*>(context);
  const std::string_view line(data, size * count);
  const bool goes_on = running.guarded([&] {
    if (running.transfer.on_header) running.transfer.on_header(line);
    return true;
  });
  return goes_on ? line.size() : 0;
}

int on_progress(void* context, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  auto& running = *static_cast<Running*>(context);
  const bool goes_on = running.guarded([&] {
    const HttpTransfer& transfer = running.transfer;
    if (transfer.on_progress) {
      transfer.on_progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    }
    return !(transfer.stops && transfer.stops());
  });
  return goes_on ? 0 : 1;
}

/// `message`: the library's own, empty if it has none.
std::string problem_text(CURLcode code, const char* message) {
  if (code == CURLE_TOO_MANY_REDIRECTS) {
    return fmt::format("expected an answer within {} redirections, found more", kMostRedirections);
  }
  return message[0] ? message : curl_easy_strerror(code);
}

/// What `code` says of the connection.
TransferOutcome::Connection connection_after(CURLcode code, CURL* handle) {
  using Connection = TransferOutcome::Connection;
  curl_off_t microseconds = 0;  // until it was made; 0: it was not
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      return Connection::none;
    case CURLE_OPERATION_TIMEDOUT:
      curl_easy_getinfo(handle, CURLINFO_CONNECT_TIME_T, &microseconds);
      return microseconds > 0 ? Connection::lost : Connection::none;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return Connection::lost;
    default:
      return Connection::held;
  }
}

/// Whether the host of `url` is this machine.
bool is_near(const std::string& url) {
  const std::unique_ptr<CURLU, FreeUrl> parts(curl_url());
  char* text = nullptr;
  if (!parts || curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_HOST, &text, 0) != CURLUE_OK)
    return false;
  const std::unique_ptr<char, FreeText> host(text);
  for (const char* own : {"localhost", "127.0.0.1", "[::1]"}) {
    if (curl_strequal(host.get(), own)) return true;
  }
  return false;
}

}  // namespace

HttpHeader parse_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (line.starts_with("HTTP/") || colon == std::string_view::npos) return {};
  HttpHeader header{.name = std::string(line.substr(0, colon))};
  std::ranges::transform(header.name, header.name.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  line.remove_prefix(colon + 1);
  constexpr std::string_view kSpace = " \t\r\n";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  header.value = line.substr(0, line.find_last_not_of(kSpace) + 1);
  return header;
}

TransferOutcome run_transfer(const HttpTransfer& transfer) {
  const std::unique_ptr<CURL, CleanHandle> handle(curl_easy_init());
  if (!handle) fail("{}: the HTTP library did not start", transfer.url);
  std::unique_ptr<curl_slist, FreeList> headers;
  for (const std::string& header : transfer.headers) {
    curl_slist* longer = curl_slist_append(headers.get(), header.c_str());
    if (!longer) throw std::bad_alloc();
    static_cast<void>(headers.release());
    headers.reset(longer);
  }
  Running running{transfer, handle.get()};
  char message[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(handle.get(), option, value);
  };
  set(CURLOPT_URL, transfer.url.c_str());
  set(CURLOPT_USERAGENT, kUserAgent);
  set(CURLOPT_PROTOCOLS_STR, transfer.takes_files ? "http,https,file" : "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, transfer.goes_on ? 1L : 0L);
  set(CURLOPT_MAXREDIRS, kMostRedirections);
  set(CURLOPT_FAILONERROR, transfer.fails_by_status ? 1L : 0L);
  set(CURLOPT_CONNECTTIMEOUT, long{transfer.connect_seconds});
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, long{transfer.silence_seconds});
  set(CURLOPT_NOSIGNAL, 1L);
  // In place of $no_proxy, which holds everywhere else.
  if (is_near(transfer.url)) set(CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFODATA, &running);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_HEADERDATA, &running);
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_WRITEDATA, &running);
  set(CURLOPT_WRITEFUNCTION, on_data);
  if (headers) set(CURLOPT_HTTPHEADER, headers.get());
  if (transfer.body) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.body->size()));
    set(CURLOPT_POSTFIELDS, transfer.body->c_str());
  }
  const CURLcode code = curl_easy_perform(handle.get());
  if (running.thrown) std::rethrow_exception(running.thrown);
  using End = TransferOutcome::End;
  if (code == CURLE_OK) return {.end = End::done, .status = running.status()};
  return {code == CURLE_ABORTED_BY_CALLBACK ? End::stopped : End::failed, running.status(),
          problem_text(code, message), connection_after(code, handle.get())};
}

}  // namespace talon
