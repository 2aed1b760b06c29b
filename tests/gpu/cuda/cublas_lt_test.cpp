// The parts of cuBLASLt's use that need no GPU.
#include "gpu/cuda/gemm/cublas_lt.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cuda {
namespace {

using ::testing::HasSubstr;

// A linked library would be loaded before main. This must be the first test, because others load
// it.
TEST(CublasLt, IsNotThereBeforeItIsAskedFor) {
  EXPECT_EQ(::dlopen(CublasLt::file(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(CublasLt, NamesTheLibraryThatIsMissingAndWhereItComesFrom) {
  const Status status = CublasLt::load("libcublasLt-of-nobody.so.13").status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("libcublasLt-of-nobody.so.13"));
  EXPECT_THAT(status.message(), HasSubstr("nvidia-cublas from PyPI"));
  EXPECT_THAT(status.message(), HasSubstr("LD_LIBRARY_PATH"));
}

TEST(CublasLt, IsNotAnyLibrary) {
  const Status status = CublasLt::load("libm.so.6").status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("cublasLtCreate"));
}

TEST(CublasLt, DescribesProductsAndSaysWhatFailed) {
  if (::dlopen(CublasLt::file(), RTLD_NOW) == nullptr) GTEST_SKIP() << ::dlerror();
  const auto found = CublasLt::get();
  ASSERT_TRUE(found.ok()) << found.status().message();
  const CublasLt& lt = **found;
  cublasLtMatmulDescOpaque_t description{};
  EXPECT_TRUE(lt.status(lt.init_description(&description, sizeof description, CUBLAS_COMPUTE_32F,
                                            CUDA_R_32F),
                        "a description")
                  .ok());
  const Status status = lt.status(CUBLAS_STATUS_NOT_SUPPORTED, "a product");
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_EQ(status.message(), "cuBLASLt: a product failed: CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_EQ(lt.status(CUBLAS_STATUS_ALLOC_FAILED, "a product").code(),
            StatusCode::resource_exhausted);
}

}  // namespace
}  // namespace tandem::cuda
