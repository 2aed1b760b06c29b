#include "engine/memory/free_pages.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::int32_t kBits = 64;

std::uint64_t bit_of(std::int32_t page) {
  return std::uint64_t{1} << (page % kBits);
}

std::size_t word_of(std::int32_t page) {
  return static_cast<std::size_t>(page / kBits);
}

}  // namespace

FreePages::FreePages(std::int32_t num_pages)
    : num_pages_(num_pages),
      count_(num_pages),
      words_(word_of(num_pages + kBits - 1), ~std::uint64_t{0}) {
  TANDEM_CHECK(num_pages > 0, "{} pages", num_pages);
  if (num_pages % kBits != 0) words_.back() = bit_of(num_pages) - 1;
}

bool FreePages::contains(PageId page) const {
  return (words_[word_of(page.value())] & bit_of(page.value())) != 0;
}

void FreePages::put(PageId page) {
  TANDEM_CHECK(!contains(page), "page {} given back twice", page.value());
  const std::size_t word = word_of(page.value());
  words_[word] |= bit_of(page.value());
  lowest_word_ = std::min(lowest_word_, word);
  ++count_;
}

void FreePages::take(PageId page) {
  TANDEM_CHECK(contains(page), "page {} is not free", page.value());
  words_[word_of(page.value())] &= ~bit_of(page.value());
  --count_;
}

PageId FreePages::take_lowest() {
  TANDEM_CHECK(count_ > 0, "no page is free");
  while (words_[lowest_word_] == 0) ++lowest_word_;
  const PageId page(static_cast<std::int32_t>(lowest_word_) * kBits +
                    std::countr_zero(words_[lowest_word_]));
  take(page);
  return page;
}

std::int32_t FreePages::highest(std::int32_t from, bool free) const {
  for (std::int32_t page = from; page >= 0; page = page / kBits * kBits - 1) {
    const std::uint64_t word = free ? words_[word_of(page)] : ~words_[word_of(page)];
    const std::uint64_t at_or_below = word & (bit_of(page) | (bit_of(page) - 1));
    if (at_or_below != 0) {
      return page / kBits * kBits + kBits - 1 - std::countl_zero(at_or_below);
    }
  }
  return -1;
}

std::vector<PageId> FreePages::take_runs(std::int32_t wanted) {
  TANDEM_CHECK(wanted <= count_, "{} pages of {} free", wanted, count_);
  std::vector<PageId> taken;
  taken.reserve(static_cast<std::size_t>(wanted));
  // The first pass looks for one run that is long enough, the second takes any runs.
  for (const bool any : {false, true}) {
    std::int32_t end = highest(num_pages_ - 1, true);  // last page of the run
    while (end >= 0 && wanted > 0) {
      const std::int32_t before = highest(end, false);
      const std::int32_t length = std::min(end - before, wanted);
      if (any || length == wanted) {
        for (std::int32_t page = end - length + 1; page <= end; ++page) {
          taken.emplace_back(page);
          take(taken.back());
        }
        wanted -= length;
      }
      end = before < 0 ? -1 : highest(before, true);
    }
  }
  return taken;
}

}  // namespace tandem
