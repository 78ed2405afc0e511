#include "cli/pull/download.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "cli/pull/checksum.h"
#include "cli/pull/refusal_words.h"
#include "cli/pull/retry.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

constexpr int kPartialContent = 206;
constexpr int kRefused = 400;  // and above
constexpr int kRangeNotSatisfiable = 416;
constexpr std::string_view kByChecksum = "sha256:";  // begins a version that is no ETag

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// One try: a transfer and its files beside the target.
class Transfer {
 public:
  explicit Transfer(const Download& job)
      : job_(job),
        part_(job.target.string() + ".part"),
        version_file_(job.target.string() + ".part.etag"),
        meter_("pull " + job.target.filename().string(), ProgressMeter::Unit::bytes) {}

  void run() {
    open_part();
    const std::uint64_t have = resumable_bytes();
    if (have > 0 && have == job_.bytes && is_by_checksum()) {
      begun_ = have;
      return check_and_move();
    }
    if (have == 0 && !start_anew()) {
      fail("pull {}: cannot write {}: {}", job_.url, part_.string(), std::strerror(errno));
    }
    const TransferOutcome outcome = fetch(have);
    if (have > 0 && outcome.status == kRangeNotSatisfiable) {
      if (whole_bytes_ == have) return check_and_move();  // all had come, and was not checked yet
      forget();
      throw Error(fmt::format(
          "pull {}: the server no longer has the file begun earlier: run the same command again",
          job_.url));
    }
    finish(outcome);
  }

 private:
  std::uint64_t resumable_bytes() {
    std::error_code problem;
    const auto bytes = std::filesystem::file_size(part_, problem);
    std::ifstream file(version_file_);
    if (problem || bytes == 0 || !std::getline(file, version_) || version_.empty()) return 0;
    const bool is_other = is_by_checksum() && version_ != version_by_checksum();
    return is_other ? 0 : bytes;
  }

  bool is_by_checksum() const { return version_.starts_with(kByChecksum); }
  std::string version_by_checksum() const { return std::string(kByChecksum) + job_.sha256; }

  /// Opens the part for appending, and for nobody else until it is closed: the kernel drops the
  /// lock of a process that ends in any way. A file system that knows no locks keeps nobody apart.
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

  TransferOutcome fetch(std::uint64_t have) {
    begun_ = have;
    HttpTransfer transfer{
        .url = job_.url,
        .headers = job_.headers,
        .takes_files = true,
        .goes_on = true,
        .fails_by_status = true,
        .on_data = [this](int status, std::string_view piece) { return write(status, piece); }};
    if (have > 0) {
      transfer.headers.push_back(fmt::format("Range: bytes={}-", have));
      if (!is_by_checksum()) transfer.headers.push_back("If-Range: " + version_);
    }
    transfer.on_header = [this](std::string_view line) { read_header(line); };
    transfer.on_progress = [this](std::uint64_t done, std::uint64_t total) {
      meter_.update(begun_ + done, total > 0 ? begun_ + total : 0, begun_);
    };
    transfer.stops = [this] { return job_.stop && job_.stop->requested(); };
    return run_transfer(transfer);
  }

  void finish(const TransferOutcome& outcome) {
    const bool flushed = std::fflush(file_.get()) == 0;
    if (!write_problem_.empty() || !flushed) {
      forget();
      fail("pull {}: writing {} failed: {}", job_.url, part_.string(),
           write_problem_.empty() ? std::strerror(errno) : write_problem_);
    }
    using End = TransferOutcome::End;
    const std::string rest = outcome.end == End::done ? "" : keep_or_forget();
    if (outcome.end == End::stopped) fail("pull {}: stopped{}", job_.url, rest);
    if (outcome.end == End::failed) {
      fail_transfer(failure_text(outcome, rest), outcome, words_, resumable_bytes());
    }
    if (received_ == 0 && !begin_body(outcome.status)) {
      fail("pull {}: cannot write {}: {}", job_.url, part_.string(), std::strerror(errno));
    }
    if (outcome.status == kPartialContent) require_whole();
    check_and_move();
  }

  std::string failure_text(const TransferOutcome& outcome, const std::string& rest) const {
    if (outcome.status < kRefused) {
      return fmt::format("pull {}: {}{}", job_.url, outcome.problem, rest);
    }
    const std::string meaning = job_.meaning ? job_.meaning(outcome.status) : "";
    return fmt::format("pull {}: {}{}", job_.url, meaning.empty() ? outcome.problem : meaning,
                       words_.text(outcome.status));
  }

  /// A rest that is none, or not all that the server has, makes no file.
  void require_whole() {
    const bool is_known = whole_bytes_ > 0;
    const std::uint64_t found = begun_ + received_;
    if (is_known ? found == whole_bytes_ : received_ > 0) return;
    const std::string rest = is_known && found < whole_bytes_ ? keep_or_forget() : "";
    if (rest.empty()) forget();
    if (is_known) {
      fail("pull {}: expected {} bytes in all, got {}{}", job_.url, whole_bytes_, found, rest);
    }
    fail("pull {}: expected the rest of the file, got nothing: run the same command again",
         job_.url);
  }

  /// What is left for the next time, in words.
  std::string keep_or_forget() {
    if (resumable_bytes() > 0) {
      return " (what has come is kept: the same command goes on from there)";
    }
    forget();
    return received_ == 0 ? ""
                          : " (the same command begins anew: the server does not name versions of "
                            "the file)";
  }

  void check_and_move() {
    const std::uint64_t expected = begun_ + received_;
    const std::uint64_t found = std::filesystem::file_size(part_);
    if (found != expected) {
      forget();
      fail("pull {}: {} has {} bytes: expected the {} that came", job_.url, part_.string(), found,
           expected);
    }
    if (job_.bytes > 0 && found != job_.bytes) {
      forget();
      fail("pull {}: expected {} bytes, got {}", job_.url, job_.bytes, found);
    }
    if (!job_.sha256.empty()) {
      const std::string sum = checksum_of_part();
      if (sum != job_.sha256) {
        forget();
        fail("pull {}: expected SHA-256 {}, got {}", job_.url, job_.sha256, sum);
      }
    }
    std::filesystem::remove(version_file_);
    std::filesystem::rename(part_, job_.target);
    file_.reset();
  }

  std::string checksum_of_part() {
    try {
      return checksum_of(part_, job_.stop);
    } catch (const Error& error) {
      fail("pull {}: {}{}", job_.url, error.what(), keep_or_forget());
    }
  }

  void forget() {
    std::error_code ignored;
    std::filesystem::remove(version_file_, ignored);
    std::filesystem::remove(part_, ignored);
    file_.reset();
  }

  /// At the first byte, or at the end of an answer without one: a whole new file instead of the
  /// asked-for rest replaces what was there.
  bool begin_body(int status) {
    if (is_page_) refuse_page();
    if (begun_ > 0 && status != kPartialContent) {
      begun_ = 0;
      if (!start_anew()) return false;
    }
    if (begun_ == 0) {
      // A checksum holds wherever the hub sends next time; of a store's answers not all have ETags.
      std::ofstream(version_file_)
          << (job_.sha256.empty() ? new_etag_ : version_by_checksum()) << "\n";
    }
    return true;
  }

  /// Addresses are often copied from a browser that shows a page about the file.
  [[noreturn]] void refuse_page() {
    if (begun_ == 0) forget();
    fail(
        "pull {}: expected a file, found a page (text/html): what lies on a hub is fetched by its "
        "name, talon pull OWNER/NAME[@REVISION][:FILE]",
        job_.url);
  }

  bool write(int status, std::string_view piece) {
    if (received_ == 0 && !begin_body(status)) return false;
    if (std::fwrite(piece.data(), 1, piece.size(), file_.get()) != piece.size()) {
      write_problem_ = std::strerror(errno);
      return false;
    }
    received_ += piece.size();
    return true;
  }

  void read_header(std::string_view line) {
    words_.read(line);
    if (line.starts_with("HTTP/")) {  // after a redirection
      new_etag_.clear();
      whole_bytes_ = 0;
      is_page_ = false;
    }
    const HttpHeader header = parse_header(line);
    if (header.name == "content-range") read_whole_bytes(header.value);
    if (header.name == "content-type") {
      is_page_ = header.value.starts_with("text/html") && !wants_page();
    }
    if (header.name != "etag") return;
    new_etag_ = header.value;
    if (new_etag_.starts_with("W/")) new_etag_.clear();  // of equal meaning only (RFC 9110, 8.8.1)
  }

  bool wants_page() const { return job_.target.extension().string().starts_with(".htm"); }

  /// Behind the range that comes, or of a file that has no such range (RFC 9110, 14.4).
  void read_whole_bytes(std::string_view range) {
    const std::size_t slash = range.find('/');
    if (!range.starts_with("bytes ") || slash == range.npos) return;
    range.remove_prefix(slash + 1);
    std::from_chars(range.data(), range.data() + range.size(), whole_bytes_);
  }

  const Download& job_;
  std::filesystem::path part_;
  std::filesystem::path version_file_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  ProgressMeter meter_;
  std::string version_;   // of what lies there: its ETag, or by its checksum
  std::string new_etag_;  // of what comes
  RefusalWords words_;
  std::string write_problem_;
  bool is_page_ = false;           // what comes is no file
  std::uint64_t begun_ = 0;        // bytes there before
  std::uint64_t received_ = 0;     // bytes that came
  std::uint64_t whole_bytes_ = 0;  // of the server's file, beside a part of it or none; 0: unknown
};

}  // namespace

void download(const Download& job) {
  retry([&] { Transfer(job).run(); }, job.stop);
}

}  // namespace talon
