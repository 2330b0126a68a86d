<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use RedisLease\Bridge\Symfony\RedisLeaseBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Kernel;

require_once __DIR__ . '/composer.php';

/** The smallest application of Symfony's, with the bundle. Its services are public, so that a test can look at them. */
final class Application extends Kernel implements CompilerPassInterface
{
    /**
     * @param array<string, mixed> $framework
     * @param array<string, mixed>|null $leases null: the bundle is registered and not configured
     * @param callable(ContainerBuilder): void|null $services
     * @param string|null $file further configuration
     */
    public function __construct(
        private readonly string $directory,
        private readonly array $framework = [],
        private readonly ?array $leases = null,
        private readonly bool $isFirst = false,
        private $services = null,
        private readonly ?string $file = null,
    ) {
        parent::__construct('test', false);
    }

    public function registerBundles(): iterable
    {
        $bundles = [new FrameworkBundle(), new RedisLeaseBundle()];

        return $this->isFirst ? array_reverse($bundles) : $bundles;
    }

    public function registerContainerConfiguration(LoaderInterface $loader): void
    {
        $loader->load(function (ContainerBuilder $container): void {
            $container->loadFromExtension('framework', $this->framework + ['secret' => 'x', 'test' => true]);
            if ($this->leases !== null) {
                $container->loadFromExtension('redis_lease', $this->leases);
            }
            ($this->services ?? static fn () => null)($container);
        });
        if ($this->file !== null) {
            $loader->load($this->file);
        }
    }

    /** Before the passes that leave out what nobody asks for. */
    public function process(ContainerBuilder $container): void
    {
        foreach ([...$container->getDefinitions(), ...$container->getAliases()] as $id => $service) {
            if (preg_match('/lock|lease/i', $id) === 1) {
                $service->setPublic(true);
            }
        }
    }

    protected function build(ContainerBuilder $container): void
    {
        $container->addCompilerPass($this, priority: -100);
    }

    public function getProjectDir(): string
    {
        return $this->directory;
    }

    public function getCacheDir(): string
    {
        return $this->directory . '/cache';
    }

    public function getLogDir(): string
    {
        return $this->directory . '/log';
    }
}
