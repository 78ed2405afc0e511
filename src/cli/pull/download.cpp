#include "cli/pull/download.h"

#include <curl/curl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "io/sha256.h"

namespace talon {
namespace {

constexpr long kPartialContent = 206;
constexpr long kRangeNotSatisfiable = 416;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct CleanHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// One transfer and its files beside the target.
class Transfer {
 public:
  explicit Transfer(const Download& job)
      : job_(job),
        part_(job.target.string() + ".part"),
        etag_file_(job.target.string() + ".part.etag"),
        handle_(curl_easy_init()),
        meter_("pull " + job.target.filename().string(), ProgressMeter::Unit::bytes) {
    if (!handle_) fail("pull {}: the HTTP library did not start", job_.url);
  }

  void run() {
    open_part();
    const std::uint64_t have = resumable_bytes();
    if (have == 0 && !start_anew()) {
      fail("pull {}: cannot write {}: {}", job_.url, part_.string(), std::strerror(errno));
    }
    ask_for(have);
    const CURLcode code = curl_easy_perform(handle_.get());
    long response = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &response);
    if (have > 0 && response == kRangeNotSatisfiable) {
      forget();
      throw Error(fmt::format(
          "pull {}: the server no longer has the file begun earlier: run the same command again",
          job_.url));
    }
    finish(code, response);
  }

 private:
  std::uint64_t resumable_bytes() {
    std::error_code problem;
    const auto bytes = std::filesystem::file_size(part_, problem);
    std::ifstream file(etag_file_);
    if (problem || bytes == 0 || !std::getline(file, etag_) || etag_.empty()) return 0;
    return bytes;
  }

  /// Opens the part for appending, and for nobody else until it is closed: the kernel drops the
  /// lock of a process that ends in any way.
  void open_part() {
    for (;;) {
      file_.reset(std::fopen(part_.c_str(), "ae"));
      if (!file_) {
        fail("pull {}: cannot write {}: {}", job_.url, part_.string(), std::strerror(errno));
      }
      if (::flock(::fileno(file_.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        fail("pull {}: another pull is writing {}", job_.url, part_.string());
      }
      if (is_still_there()) return;
    }
  }

  /// Whoever had the lock may have moved the file away meanwhile: it is the target now.
  bool is_still_there() const {
    struct stat opened = {};
    struct stat named = {};
    return ::fstat(::fileno(file_.get()), &opened) == 0 && ::stat(part_.c_str(), &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  }

  bool start_anew() { return ::ftruncate(::fileno(file_.get()), 0) == 0; }

  void ask_for(std::uint64_t have) {
    CURL* handle = handle_.get();
    begun_ = have;
    if (have > 0) {
      curl_slist* list = curl_slist_append(nullptr, fmt::format("Range: bytes={}-", have).c_str());
      headers_.reset(curl_slist_append(list, ("If-Range: " + etag_).c_str()));
      curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers_.get());
    }
    curl_easy_setopt(handle, CURLOPT_URL, job_.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, message_);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  }

  void finish(CURLcode code, long response) {
    const bool flushed = std::fflush(file_.get()) == 0;
    if (!write_problem_.empty() || !flushed) {
      forget();
      fail("pull {}: writing {} failed: {}", job_.url, part_.string(),
           write_problem_.empty() ? std::strerror(errno) : write_problem_);
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) fail("pull {}: stopped{}", job_.url, kept_text());
    if (code != CURLE_OK) {
      if (received_ == 0 && begun_ == 0) forget();
      const std::string reason = message_[0] ? message_ : curl_easy_strerror(code);
      fail("pull {}: {}{}", job_.url, reason, response >= 400 ? "" : kept_text());
    }
    check_and_move();
  }

  std::string kept_text() const {
    return std::filesystem::exists(part_) && std::filesystem::exists(etag_file_)
               ? " (what has come is kept: the same command goes on from there)"
               : "";
  }

  void check_and_move() {
    const std::uint64_t expected = begun_ + received_;
    const std::uint64_t found = std::filesystem::file_size(part_);
    if (found != expected) {
      forget();
      fail("pull {}: {} has {} bytes: expected the {} that came", job_.url, part_.string(), found,
           expected);
    }
    if (!job_.sha256.empty()) {
      const std::string sum = sha256_of_file(part_);
      if (sum != job_.sha256) {
        forget();
        fail("pull {}: expected SHA-256 {}, got {}", job_.url, job_.sha256, sum);
      }
    }
    std::filesystem::remove(etag_file_);
    std::filesystem::rename(part_, job_.target);
    file_.reset();
  }

  void forget() {
    std::error_code ignored;
    std::filesystem::remove(etag_file_, ignored);
    std::filesystem::remove(part_, ignored);
    file_.reset();
  }

  /// At the first byte: a whole new file instead of the asked-for rest replaces what was there.
  bool begin_body() {
    long response = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &response);
    if (begun_ > 0 && response != kPartialContent) {
      begun_ = 0;
      if (!start_anew()) return false;
    }
    if (begun_ == 0) std::ofstream(etag_file_) << new_etag_ << "\n";
    return true;
  }

  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = size * count;
    if (transfer.received_ == 0 && !transfer.begin_body()) return 0;
    if (std::fwrite(data, 1, bytes, transfer.file_.get()) != bytes) {
      transfer.write_problem_ = std::strerror(errno);
      return 0;
    }
    transfer.received_ += bytes;
    return bytes;
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    std::string line(data, size * count);
    const std::size_t colon = line.find(':');
    if (line.starts_with("HTTP/")) transfer.new_etag_.clear();  // after a redirection
    if (colon == std::string::npos) return size * count;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (name == "etag") {
      line.erase(line.find_last_not_of(" \r\n") + 1);
      transfer.new_etag_ =
          line.substr(std::min(line.find_first_not_of(' ', colon + 1), line.size()));
    }
    return size * count;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (transfer.job_.stop && transfer.job_.stop->requested()) return 1;
    const auto done = transfer.begun_ + static_cast<std::uint64_t>(now);
    transfer.meter_.update(done,
                           total > 0 ? transfer.begun_ + static_cast<std::uint64_t>(total) : 0);
    return 0;
  }

  const Download& job_;
  std::filesystem::path part_;
  std::filesystem::path etag_file_;
  std::unique_ptr<CURL, CleanHandle> handle_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  ProgressMeter meter_;
  std::string etag_;      // of what lies there
  std::string new_etag_;  // of what comes
  std::string write_problem_;
  std::uint64_t begun_ = 0;     // bytes there before
  std::uint64_t received_ = 0;  // bytes that came
  char message_[CURL_ERROR_SIZE] = {};
};

}  // namespace

void download(const Download& job) { Transfer(job).run(); }

}  // namespace talon
